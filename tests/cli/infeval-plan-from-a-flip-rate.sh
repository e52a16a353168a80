infeval plan --psi 0.05 --power 0.9 --json | grep -oE '"items_needed(_two_sided)?":[0-9]+'
