infeval "$ROOT/evals/demo-model" --tasks copa
