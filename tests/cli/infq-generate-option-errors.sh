D=$ROOT/evals/demo-model
try() { "$@" 2>&1 >/dev/null </dev/null | sed "s|$ROOT/||g"; echo "-> ${PIPESTATUS[0]} ${*//$ROOT\//}"; }
try infq generate
try infq generate nowhere
try infq generate $D more
try infq generate $D --max-tokens 0
try infq generate $D --temperature -1
try infq generate $D --temperature nan
try infq generate $D --temperature 1 --top-p 0
try infq generate $D --temperature 1 --top-k x
try infq generate $D --top-k 5
try infq generate $D --top-p 0.9
try infq generate $D --seed 3
try infq generate $D --system "be short"
try infq generate $D --chat --prompt hello
try infq generate $D --backend zap
try infq generate $D --threads 5000
long="$(printf 'one two three %.0s' $(seq 200))"
infq generate $D --prompt "$long" 2>&1 | sed "s|$ROOT/||g"
