printf 'recipe: t\nsteps:\n  - quantize:\n      model: m\n      group_sise: 4\n' >a.yaml
printf 'recipe: t\nsteps:\n  - quantize:\n      model: m\n      tp: many\n' >b.yaml
printf 'recipe: t\nsteps:\n  - bench:\n      model: no/such/model\n' >c.yaml
infq run a.yaml; echo $?; infq run b.yaml; echo $?; infq run c.yaml; echo $?; infq run no.yaml; echo $?; ls
