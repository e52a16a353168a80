# One matrix is quantized: it is the one unit, the whole divergence, and the exception.
set -e
infq quantize --bits 4 --group-size 64 --ignore 're:(?!model.layers.2.mlp.up_proj$).*' "$ROOT/evals/demo-model" -o q --quiet >/dev/null
infeval diagnose "$ROOT/evals/demo-model" q --text "$ROOT/evals/calib.txt" --by module --tokens 256 --window 128 --quiet >out
grep -c 'one module at a time: 1 of them changed' out
grep -o '^model.layers.2.mlp.up_proj' out | head -1
grep 'measured with all of them' out
tail -1 out
infeval diagnose "$ROOT/evals/demo-model" "$ROOT/evals/demo-model" --text "$ROOT/evals/calib.txt"
