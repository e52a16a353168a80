infq quantize --bits 4 --mem-limit 2MB "$ROOT/evals/demo-model" -o out; code=$?; ls; exit $code
