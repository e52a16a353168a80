infq inspect --json "$ROOT/evals/demo-model" | grep -o "\"parameters\":[0-9]*"
