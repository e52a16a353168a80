infq quantize --bits 4 "$ROOT/evals/demo-model" -o out --ignore nothing_like_this; code=$?; ls; exit $code
