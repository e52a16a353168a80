mkfifo model.safetensors model.gguf
timeout 10 infq inspect model.safetensors
timeout 10 infq quantize model.safetensors; timeout 10 infq convert model.gguf -o out
