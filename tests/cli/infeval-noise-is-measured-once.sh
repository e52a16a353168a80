# A record is taken up by its model, settings and runs; other runs are refused.
set -e
measure() { infeval noise "$ROOT/evals/demo-model" --tasks "$ROOT/evals/tasks/$1.jsonl" --limit 40 -o record.json --quiet "${@:2}"; }
task=$(basename "$(ls "$ROOT"/evals/tasks/*.jsonl | head -1)" .jsonl)
measure "$task" -r 3 | grep -c 'the engine repeats itself bit by bit'
cp record.json first.json
measure "$task" -r 3 | grep -c 'taken from the record, not measured again'
cmp record.json first.json && echo 'the record is as it was'
measure "$task" -r 4
