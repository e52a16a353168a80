infeval "$ROOT/evals/demo-model" "$ROOT/evals/demo-model" --tasks "$ROOT/evals/tasks/order.jsonl,$ROOT/evals/tasks/copy.jsonl,$ROOT/evals/tasks/world.jsonl" --quiet | grep -c "^verdict: pass"
