cp "$ROOT/evals/demo-model/model.safetensors" model.safetensors
infq quantize -q --bits 4 model.safetensors >/dev/null; ls
infq verify -q model-W4A16-G128.safetensors --source model.safetensors | tail -1
