cp "$ROOT/evals/demo-model/model.safetensors" m.safetensors
infq prune -q --method magnitude --sparsity 0.5 m.safetensors | head -1
infq verify --source m.safetensors m-SPARSE-50.safetensors | tail -1
infq quantize -q --bits 8 m-SPARSE-50.safetensors | tail -1
