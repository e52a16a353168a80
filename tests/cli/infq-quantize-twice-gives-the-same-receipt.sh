infq quantize -q --bits 4 "$ROOT/evals/demo-model" -o a >/dev/null && infq quantize -q --threads 1 --bits 4 "$ROOT/evals/demo-model" -o b >/dev/null && diff -r a b && echo same
