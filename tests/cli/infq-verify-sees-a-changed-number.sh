infq quantize -q --bits 4 "$ROOT/evals/demo-model" -o out >/dev/null
infq verify -q out | tail -1
printf "\300\177" | dd of=out/model.safetensors bs=1 seek=$(($(stat -c %s out/model.safetensors) - 2)) conv=notrunc status=none
infq verify -q out | tail -1
exit "${PIPESTATUS[0]}"
