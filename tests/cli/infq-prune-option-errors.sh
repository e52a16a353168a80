D=$ROOT/evals/demo-model
try() { "$@" 2>&1 >/dev/null </dev/null | sed "s|$ROOT/||g"; echo "-> ${PIPESTATUS[0]} ${*//$ROOT\//}"; }
try infq prune $D
try infq prune --sparsity 0 $D
try infq prune --sparsity 1 $D
try infq prune --sparsity half $D
try infq prune --pattern 4:4 $D
try infq prune --pattern 2-4 $D
try infq prune --sparsity 0.6 --pattern 2:4 $D
try infq prune --sparsity 0.4 --pattern 3:5 $D
try infq prune --pattern 3:5 --method magnitude $D
try infq prune --sparsity 0.5 --method zap $D
try infq prune --sparsity 0.5 --method magnitude --calib self $D
try infq prune --sparsity 0.5 --method magnitude --damping 0.1 $D
try infq prune --sparsity 0.5 --method sparsegpt --compare layer $D
try infq prune --pattern 2:4 --compare row $D
try infq prune --sparsity 0.5 --compare column $D
try infq prune --sparsity 0.5 --calib nowhere.txt $D
try infq prune --sparsity 0.5 --method magnitude --ignore nothing_like_this $D
try infq prune --sparsity 0.5 --include lm_head $D
try infq quantize --sparsity 0.5 $D
try infq quantize --sparsity 0.5 --effort 1 $D
try infq quantize --sparsity 2 --effort 2 $D
infq prune -q --sparsity 0.5 --method magnitude $D -o once >/dev/null
try infq prune --sparsity 0.5 --method magnitude once
infq quantize -q --bits 8 $D -o q8 >/dev/null
try infq prune --sparsity 0.5 --method magnitude q8
ls
