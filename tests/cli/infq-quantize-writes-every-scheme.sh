for s in W4A16 W4A16_ASYM W8A16 W8A8-INT8 FP8 FP8-BLOCK; do
    infq quantize -q --scheme $s --method rtn "$ROOT/evals/demo-model" -o $s >/dev/null && infq verify -q $s | tail -1
    infq generate -q $s --prompt "the" -n 4 >text && [ -s text ] || echo "$s does not run"
done
