# With standard streams closed, files that are opened next must not take their numbers: nothing of progress or results lands in them.
m=$ROOT/evals/demo-model; t=$ROOT/evals/tasks/order.jsonl
infeval -q "$m" --tasks "$t" --items want.jsonl >/dev/null
export INFQ_PROGRESS=1
infeval "$m" --tasks "$t" --items got1.jsonl >out 2>&-; echo "exit $?"
infeval "$m" --tasks "$t" --items got2.jsonl 2>err >&-; echo "exit $?"
infeval "$m" --tasks "$t" --items got3.jsonl <&- >&- 2>&-; echo "exit $?"
for i in 1 2 3; do cmp want.jsonl got$i.jsonl; done
awk '$1 == "order" { print $1 }' out
tail -1 err | sed 's|.*K||'
infq quantize "$m" -o folder --method rtn 2>err >&-; echo "exit $?"; ls -d folder 2>/dev/null
tail -1 err | sed 's|.*K||'
