infq inspect "$ROOT/evals/demo-model" >/dev/full
