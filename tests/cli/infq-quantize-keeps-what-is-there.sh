infq quantize -q --bits 8 "$ROOT/evals/demo-model" -o out >/dev/null; sha256sum out/* >before
infq quantize -q --bits 4 "$ROOT/evals/demo-model" -o out; code=$?
sha256sum --quiet -c before && exit $code
