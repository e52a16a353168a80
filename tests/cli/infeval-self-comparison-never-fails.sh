m=$ROOT/evals/demo-model t=$ROOT/evals/tasks
infeval "$m" "$m" --tasks "$t/order.jsonl,$t/copy.jsonl,$t/world.jsonl" --quiet | grep -c "^PASS: "
