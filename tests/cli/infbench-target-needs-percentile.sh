infbench "$ROOT/evals/demo-model" --target "mean ttft < 5ms"
