cp "$ROOT/evals/demo-model/model.safetensors" m.safetensors; infq generate m.safetensors
