infeval --server http://127.0.0.1:9 --model m --tasks "$ROOT/evals/tasks/facts.jsonl" --limit 1 --retries 0
