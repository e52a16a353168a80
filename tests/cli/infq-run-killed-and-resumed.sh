# kill -9 at several moments: the same items and the same model as a run that nobody stopped, never half a model, no step left working.
cat >r.yaml <<Y
recipe: t
variables: {out: x}
steps:
  - quantize: {model: $ROOT/evals/demo-model, output: "\${out}"}
  - verify: {model: "\${quantize.output}", source: $ROOT/evals/demo-model}
  - eval: {models: [$ROOT/evals/demo-model, "\${quantize.output}"], tasks: $ROOT/evals/tasks/sums.jsonl, limit: 100}
Y
infq run -q r.yaml -o whole --set out=whole-model >/dev/null
for after in 0.05 0.15 0.3 0.5; do
    infq run -q r.yaml -o killed --set out=killed-model >/dev/null 2>&1 &
    sleep $after
    kill -9 $! 2>/dev/null
    wait $! 2>/dev/null
    [ ! -e killed-model ] || infq verify -q killed-model >/dev/null || echo "half a model is there"
done 2>/dev/null
infq run -q r.yaml -o killed --set out=killed-model
echo "exit $?"
cmp whole-model/model.safetensors killed-model/model.safetensors && echo "same model"
tail -n +2 whole/eval.items/whole-model/sums.jsonl >a
tail -n +2 killed/eval.items/killed-model/sums.jsonl >b
cmp a b && echo "same items"
