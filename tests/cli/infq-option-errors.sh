D=$ROOT/evals/demo-model
try() { "$@" 2>&1 >/dev/null </dev/null | sed "s|$ROOT/||g"; echo "-> ${PIPESTATUS[0]} ${*//$ROOT\//}"; }
infq 2>&1 | head -1
try infq quantise
try infq --zap
try infq gen
try infq gen zap
try infq gen text --bytes 0
try infq gen text --bytes 1x
try infq gen text --seed x
try infq gen text more
try infq gen tasks
try infq gen tasks --items 0 out
ls
