m=$ROOT/evals/demo-model
infq generate -q --prompt "the cat" -n 30 --threads 1 "$m" >a; infq generate -q --prompt "the cat" -n 30 --threads 2 "$m" >b
cmp a b && [ "$(wc -c <a)" -gt 30 ] && echo same
