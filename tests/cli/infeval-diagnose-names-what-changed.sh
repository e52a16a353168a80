# One matrix is quantized: it is the one unit, the whole divergence, and the exception, whose options run. Nothing is left in TMPDIR.
mkdir tmp; export TMPDIR=$PWD/tmp
set -e
infq quantize --bits 4 --group-size 64 --ignore 're:(?!model.layers.2.mlp.up_proj$).*' "$ROOT/evals/demo-model" -o q --quiet >/dev/null
infeval diagnose "$ROOT/evals/demo-model" q --text "$ROOT/evals/calib.txt" --by module --tokens 256 --window 128 --quiet >out
grep -c 'one module at a time: 1 of them changed' out
grep -o '^model.layers.2.mlp.up_proj' out | head -1
grep 'measured with all of them' out | tail -1
tail -1 out
options=$(grep -o -- '--type .*' out); echo "$options" | sed 's/:[0-9]*$/:N/'
infq quantize --bits 4 --group-size 64 --ignore 're:(?!model.layers.2.mlp.up_proj$).*' $options "$ROOT/evals/demo-model" -o mixed --quiet >/dev/null
d() {
    infeval diagnose "$ROOT/evals/demo-model" $1 --text "$ROOT/evals/calib.txt" --by module --tokens 256 --window 128 --quiet --json |
        grep -o "$2[0-9.e-]*" | head -1 | grep -o '[0-9.e-]*$' | xargs printf '%.6e'
}
a=$(d q '"with_exceptions_at_8_bits":{"kld":') b=$(d mixed '"kld":')
test "$a" = "$b" -a "$a" != 0.000000e+00
ls tmp
infeval diagnose "$ROOT/evals/demo-model" "$ROOT/evals/demo-model" --text "$ROOT/evals/calib.txt"
