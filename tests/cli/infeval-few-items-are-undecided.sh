m=$ROOT/evals/demo-model
infeval -q "$m" "$m" --tasks "$ROOT/evals/tasks/copy.jsonl" --limit 20 >out
code=$?; grep -c "^UNDECIDED: " out; exit $code
