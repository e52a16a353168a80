infbench -q "$ROOT/evals/demo-model" --prompt-tokens 16 --max-tokens 2 --repeats 20 --target "p50 ttft < 1us" >out
code=$?; grep -c "not met" out; exit $code
