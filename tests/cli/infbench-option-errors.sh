D=$ROOT/evals/demo-model
try() { "$@" 2>&1 >/dev/null </dev/null | sed "s|$ROOT/||g"; echo "-> ${PIPESTATUS[0]} ${*//$ROOT\//}"; }
try infbench
try infbench nowhere
try infbench $D more
try infbench $D --target ""
try infbench $D --target "p90 ttft"
try infbench $D --target "p90 zap < 3ms"
try infbench $D --target "p90 ttft < 3"
try infbench $D --target "p90 ttft > 3ms"
try infbench $D --target "p100 ttft < 3ms"
try infbench $D --repeats 0
try infbench $D --warmup -1
try infbench $D --prompt-tokens 0
try infbench $D --prompt-tokens 300
try infbench $D --max-tokens 0
try infbench $D --backend zap
