infq generate "$ROOT/evals/demo-model" --chat --prompt hi
