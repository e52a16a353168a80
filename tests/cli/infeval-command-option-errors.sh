D=$ROOT/evals/demo-model
try() { "$@" 2>&1 >/dev/null </dev/null | sed "s|$ROOT/||g"; echo "-> ${PIPESTATUS[0]} ${*//$ROOT\//}"; }
T=$ROOT/evals/tasks/copy.jsonl X=$ROOT/evals/calib.txt
try infeval gate
try infeval gate nowhere
try infeval gate nowhere nowhere
try infeval gate --margin 0 a b
try infeval noise
try infeval noise $D
try infeval noise $D --tasks $T --runs 1
try infeval noise $D --tasks $T --source zap
try infeval noise $D --tasks $T --activations zap
try infeval noise $D --tasks $T --tokens 5
try infeval noise $D --tasks $T --force
cp -r $D model && cp $T t.jsonl
try infeval noise model --tasks t.jsonl --limit 2 --runs 2 -o t.jsonl -f
try infeval noise model --tasks t.jsonl --limit 2 --runs 2 -o model/config.json -f
try infeval noise model --tasks t.jsonl --limit 2 --runs 2 --text $X -o $X -f
cmp $D/config.json model/config.json && cmp $T t.jsonl && rm -r model t.jsonl
try infeval noise $D --tasks $T --metric zap
try infeval perturb $D $D --tasks $T --metric zap
try infeval $D $D --tasks $T --metric zap
try infeval reference
try infeval reference $D --text $X
try infeval reference $D --text nowhere -o out
try infeval reference $D --text $X -o out --top 0
try infeval reference $D --text $X -o out --window 9999
try infeval reference $D --text $X -o out --tokens 10
try infeval report
try infeval report nowhere.json
try infeval report $D/config.json
try infeval report $D/config.json --format pdf
try infeval report $D/config.json -o page.pdf
ls
