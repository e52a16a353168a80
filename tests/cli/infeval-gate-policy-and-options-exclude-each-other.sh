echo 'margin: 0.02' >p.yaml; echo >a; echo >b
infeval gate a b --policy p.yaml --alpha 0.01
