infq quantize --bits 4 --group-size 80 "$ROOT/evals/demo-model" -o out; code=$?; ls; exit $code
