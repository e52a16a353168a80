m=$ROOT/evals/demo-model
infq quantize -q --bits 4 "$m" -o a >/dev/null && infq quantize -q --threads 1 --bits 4 "$m" -o b >/dev/null
diff -r a b && echo same
