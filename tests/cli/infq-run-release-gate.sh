# The gate on the demo model against its int8 form: every product is there, the receipt holds, a second run does nothing.
infq quantize -q --scheme W8A16 "$ROOT/evals/demo-model" -o m8 >/dev/null
set -- --set model="$ROOT/evals/demo-model" --set compressed=m8 --set tasks="$ROOT/evals/tasks/copy.jsonl,$ROOT/evals/tasks/world.jsonl,$ROOT/evals/tasks/order.jsonl" --set text="$ROOT/evals/calib.txt" \
    --set limit=200 --set runs=2 --set tokens=1024 --set requests=30 --set "target=p90 ttft < 10s"
infq run -q "$ROOT/recipes/release-gate.yaml" "$@"
echo "exit $?"
infq run -q "$ROOT/recipes/release-gate.yaml" "$@" --json | tr -d ' ' | grep -o '"cached":true' | wc -l
ls release-gate.run | grep -E 'html|junit|md$|receipt.json|run.json'
grep -c '<failure' release-gate.run/junit.xml
infq receipt verify m8 | tail -1
printf x >>m8/model.safetensors
infq receipt verify -q m8 | grep -c 'DIFFERS.*model.safetensors'
echo
exit 0
