mkdir a b
line() { printf '{"doc_id":%d,"doc":{},"target":"0","filter":"none","metrics":["acc"],"filtered_resps":[["-1.0","False"],["-2.0","False"]],"doc_hash":"d%d","prompt_hash":"p%d","acc":%s}\n' "$1" "$1" "$1" "$2"; }
for run in 1 2 3; do
    for i in $(seq 0 399); do line $i $((i % 97 < run ? 0 : 1)).0; done >a/samples_copa_2026-01-0${run}T12-00-00.0.jsonl
    for i in $(seq 0 399); do line $i $((i % 4 == 0 ? 0 : 1)).0; done >b/samples_copa_2026-01-0${run}T12-00-00.0.jsonl
done
infeval gate a b >out; code=$?
head -1 out | cut -d: -f1; grep -c "over runs" out; exit $code
