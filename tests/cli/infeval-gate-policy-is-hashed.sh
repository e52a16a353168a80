line() { printf '{"doc_id":%d,"filter":"none","metrics":["acc"],"acc":1}\n' "$1"; }
printf 'name: strictly the same\nreproducible: true\nmargin: 0.02\n' >early.yaml
touch -d 2020-01-01 early.yaml
for i in $(seq 0 399); do line $i; done >a.jsonl
cp a.jsonl b.jsonl
printf '{"margin": 0.02, "name": "strictly the same", "reproducible": true}' >late.json
infeval gate a.jsonl b.jsonl --policy early.yaml >1 || exit
infeval gate a.jsonl b.jsonl --policy late.json >2 || exit
cut -d: -f1 1 | head -1
diff <(grep -o "sha256 [0-9a-f]*" 1) <(grep -o "sha256 [0-9a-f]*" 2) && echo one hash
grep -c NOTE 1; grep -o "NOTE: the policy was written after the run began" 2
