# A file of 6 items: with --limit 4 it counts for 4 and stays; with a line missing it is refused and stays.
m=$ROOT/evals/demo-model; run="infeval -q $m --tasks $ROOT/evals/tasks/order.jsonl --items items.jsonl"
$run --limit 6 >/dev/null; cp items.jsonl six
$run --limit 4 | awk '$1 == "order" { print $3 }'; cmp items.jsonl six
sed -i 3d items.jsonl; cp items.jsonl gap
$run --limit 6; code=$?
cmp items.jsonl gap && exit $code
