D=$ROOT/evals/demo-model
try() { "$@" 2>&1 >/dev/null </dev/null | sed "s|$ROOT/||g"; echo "-> ${PIPESTATUS[0]} ${*//$ROOT\//}"; }
try infq convert -o out
try infq convert $D
try infq convert nowhere -o out
try infq convert nowhere.gguf -o out
try infq convert $D -o out --dtype i8
try infq convert $D -o out --shard-size 1x
try infq convert $D -o out.gguf
cp $D/model.safetensors not.gguf
try infq convert not.gguf -o out
mkdir there
try infq convert $D -o there
infq quantize -q --bits 4 $D -o quantized >/dev/null
try infq convert quantized -o out --dtype f16
ls
