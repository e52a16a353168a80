m=$ROOT/evals/demo-model; infq quantize -q --bits 8 "$m" -o q8 >/dev/null
infeval -q "$m" q8 --tasks "$ROOT/evals/tasks/order.jsonl,$ROOT/evals/tasks/copy.jsonl" --items items | grep -E "^(PASS|FAIL|UNDECIDED): " >a
infeval gate items/demo-model items/q8 | grep -E "^(PASS|FAIL|UNDECIDED): " >b; cmp a b && cut -d: -f1 a
