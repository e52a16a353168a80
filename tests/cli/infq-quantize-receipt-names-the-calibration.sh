infq quantize -q --bits 4 --calib self --calib-tokens 256 --calib-window 128 --seed 7 "$ROOT/evals/demo-model" -o out >/dev/null
grep -oE '"(source": "self|windows": 2|window": 128|damping": 0.01|seed": 7)' out/infq.json
