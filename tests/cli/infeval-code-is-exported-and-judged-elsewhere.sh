# HumanEval's shape, made here: completions out, results in, a verdict on them.
cat >task.yaml <<'Y'
name: code
kind: generate
about: two functions
metric: passed
files: {test: [{path: code.jsonl}]}
prompt: {context: "{{prompt}}", target: ""}
generate: {max_tokens: 4, stop: ["."], extract: code}
Y
echo '{"task_id": "C/0", "prompt": "The cat"}' >code.jsonl
echo '{"task_id": "C/1", "prompt": "Anna and"}' >>code.jsonl
infeval "$ROOT/evals/demo-model" --tasks task.yaml --items items.jsonl --export out.jsonl >/dev/null
grep -c '"task_id":"C/.","completion":".*","doc":.' out.jsonl
echo '{"doc": 1, "passed": false}' >results.jsonl
echo '{"doc": 0, "passed": true}' >>results.jsonl
infeval import items.jsonl results.jsonl -o judged.jsonl --metric passed
infeval gate judged.jsonl judged.jsonl --json | grep -o '"metric":"passed"' | head -1
