m=$ROOT/evals/demo-model
infq convert -q "$m" -o plain >/dev/null; infq convert -q --dtype f32 --shard-size 1MB "$m" -o f32 >/dev/null
infq convert -q --dtype bf16 f32 -o back >/dev/null; diff -r plain back && ls f32 | grep -c safetensors$
infq quantize -q --bits 4 "$m" -o q >/dev/null; infq convert -q --dequantize q -o dense >/dev/null
infq inspect dense | grep -c "16.000 bits per weight"
