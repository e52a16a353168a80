D=$ROOT/evals/demo-model
try() { "$@" 2>&1 >/dev/null </dev/null | sed "s|$ROOT/||g"; echo "-> ${PIPESTATUS[0]} ${*//$ROOT\//}"; }
try infq verify
try infq verify $D more
try infq verify nowhere
try infq verify $D --source nowhere
try infq verify $D --for tgi
try infq verify $D --tp 2
try infq verify $D --tp 0
try infq verify $D --threads x
try infq inspect
try infq inspect nowhere
try infq inspect /dev/null
try infq inspect $D --bits
try infq inspect $D/config.json
