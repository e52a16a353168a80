infeval reference "$ROOT/evals/demo-model" -o ref
