D=$ROOT/evals/demo-model
try() { "$@" 2>&1 >/dev/null </dev/null | sed "s|$ROOT/||g"; echo "-> ${PIPESTATUS[0]} ${*//$ROOT\//}"; }
T=$ROOT/evals/tasks/copy.jsonl X=$ROOT/evals/calib.txt
: >empty.jsonl
try infeval
try infeval $D
try infeval nowhere --tasks $T
try infeval $D --tasks nowhere.jsonl
try infeval $D --tasks empty.jsonl
try infeval $D --tasks $T --limit 0
try infeval $D --tasks $T --batch 0
try infeval $D --tasks $T --bos maybe
try infeval $D --tasks $T --backend zap
try infeval $D --tasks $T --bench nowhere.json --limit 1
try infeval $D $D --tasks $T --margin 2
try infeval $D $D --tasks $T --alpha 0
try infeval $D --ppl nowhere.txt
try infeval $D --ppl empty.jsonl
try infeval $D --ppl $X --convention zap
try infeval $D --ppl $X --window 1
try infeval $D --ppl $X --window 100000
try infeval $D --ppl $X --tokens 0
try infeval $D --ppl $X --metrics kld
try infeval $D $D --ppl $X --metrics zap
try infeval $D $D --metrics kld
try infeval $D --reference nowhere
try infeval $D --reference $X
try infeval $D -t $T --limit 2 --convention llamacpp -q
try infeval $D -t $T --limit 2 --margin 0.02 -q
try infeval $D -t $T --limit 2 --metric acc -q
ls
