D=$ROOT/evals/demo-model
try() { "$@" 2>&1 >/dev/null </dev/null | sed "s|$ROOT/||g"; echo "-> ${PIPESTATUS[0]} ${*//$ROOT\//}"; }
try infq quantize
try infq quantize $D more
try infq quantize --bits
try infq quantize --bits x $D
try infq quantize --bits 5 $D
try infq quantize --bits 4 --scheme FP8 $D
try infq quantize --scheme W9 $D
try infq quantize --method zap $D
try infq quantize --effort 3 $D
try infq quantize --effort 1 --method gptq $D
try infq quantize --effort 0 --calib self $D
try infq quantize --method rtn --calib self $D
try infq quantize --calib-tokens 100 $D
try infq quantize --calib-window 100 $D
try infq quantize --seed 2 $D
try infq quantize --damping 0.1 --calib self $D
try infq quantize --damping 3 --method gptq $D
try infq quantize --group-size 7 $D
try infq quantize --group-size all $D
try infq quantize --group-size 64 --scheme FP8 $D
try infq quantize --asym --bits 8 $D
try infq quantize --format gguf $D
try infq quantize --include nothing_like_this $D
try infq quantize --ignore 're:(' $D
try infq quantize --for tgi $D
try infq quantize --tp 2 $D
try infq quantize --mem-limit 5x $D
try infq quantize --shard-size 0 $D
try infq quantize --threads 0 $D
try infq quantize --json=1 $D
try infq quantize -o out.safetensors $D
try infq quantize --calib nowhere.txt -o out $D
try infq quantize --method search --calib self --damping 0.02 -o out $D
ls
