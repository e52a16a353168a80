infbench "$ROOT/evals/demo-model" --backend cuda --quiet
