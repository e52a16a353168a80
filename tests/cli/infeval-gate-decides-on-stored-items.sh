m=$ROOT/evals/demo-model; infq quantize -q --bits 8 "$m" -o q8 >/dev/null
infeval -q "$m" q8 --tasks "$ROOT/evals/tasks/order.jsonl,$ROOT/evals/tasks/copy.jsonl" --items items | grep "^verdict" >a
infeval gate items/demo-model items/q8 | grep "^verdict" >b; cmp a b && cut -d" " -f1-2 a
