# Perplexity and KL divergence keep their windows; a run killed in the middle of a line gives the report of one that was not.
m=$ROOT/evals/demo-model x=$ROOT/evals/calib.txt
run() { infeval "$m" "$m" --ppl "$x" --metrics kld --window 64 --tokens 2048 --items "$1" --json -q | sed 's/"items":"[^"]*",//' >"$2"; }
run all all.json
cp -r all part
for f in part/*/*; do head -c 30000 "$f" >cut && cp cut "$f"; done
run part part.json
cmp all.json part.json && diff -r all part && (cd all && wc -l */*) | sed 's/^ *//'
infeval "$m" --ppl "$x" --window 32 --tokens 2048 --items all/ -q 2>&1 | sed 's/cpu=[a-z0-9]*/cpu=X/g; s/settings (.*)/settings (..)/; s|/.*calib.txt: ||'
infeval gate all/demo-model all/demo-model-2
infeval gate all/demo-model/calib.txt.ppl.jsonl all/demo-model-2/calib.txt.ppl.jsonl
