line() { printf '{"doc_id":%d,"filter":"none","metrics":["acc"],"doc_hash":"d%d","prompt_hash":"%s","acc":1}\n' "$1" "$1" "$2"; }
for i in 0 1 2; do line $i p; done >a.jsonl
{ line 0 p; line 1 q; line 2 p; } >b.jsonl
infeval gate a.jsonl b.jsonl
