# What cannot be compared is refused with exit code 3, and the report for the pull request says why.
infq quantize -q --scheme W8A16 "$ROOT/evals/demo-model" -o m8 >/dev/null
echo 'tasks: [not_run]' >policy.yaml
infq run -q "$ROOT/recipes/release-gate.yaml" --set model="$ROOT/evals/demo-model" --set compressed=m8 --set tasks="$ROOT/evals/tasks/copy.jsonl" \
    --set text="$ROOT/evals/calib.txt" --set limit=5 --set runs=2 --set tokens=600 --set requests=2 --set policy=policy.yaml
echo "exit $?"
grep -c '<error type="refused" message="gate could not be done' release-gate.run/junit.xml
grep -c '"verdict": "refused"' m8/infq-release.json
