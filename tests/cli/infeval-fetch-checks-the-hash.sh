mkdir pub data
printf '{"context": "a", "choices": ["b", "c"], "gold": 0}\n' >pub/t.jsonl
sum=$(sha256sum pub/t.jsonl | cut -d' ' -f1)
manifest() { printf 'name: %s\nkind: choice\nabout: x\nfiles:\n  test: {path: sub/%s.jsonl, url: "file://%s/pub/t.jsonl", sha256: %s}\nprompt: {context: "{{context}}", choices: "{{choices}}", gold: "{{gold}}"}\n' "$1" "$1" "$PWD" "$2"; }
manifest good "$sum" >good.yaml
manifest bad "$(echo "$sum" | tr 0-9a-f f0-9a-e)" >bad.yaml
infeval fetch good.yaml --data data --quiet
infeval fetch good.yaml --data data --quiet
infeval "$ROOT/evals/demo-model" --tasks good.yaml --data data --quiet | grep -c '^good .* 1  acc'
infeval fetch bad.yaml --data data
code=$?
find data -type f
exit $code
