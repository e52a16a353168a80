m=$ROOT/evals/demo-model; infq quantize -q --bits 8 "$m" -o q8 >/dev/null
tasks=$(printf '%s,' "$ROOT"/evals/tasks/*.jsonl)
infeval -q "$m" q8 --tasks "${tasks%,}" --sequential --items items >live || exit
grep -E "^(PASS|FAIL|UNDECIDED)" live | cut -d: -f1; grep -o "stopped after [0-9]* of 3000" live >a
# the same run again takes up its items, and stops where it stopped
infeval -q "$m" q8 --tasks "${tasks%,}" --sequential --items items | grep -o "stopped after [0-9]* of 3000" | cmp - a
awk '{ exit !($3 < 2000) }' a && echo early
