#!/bin/bash
# usage: evals/demo.sh [BUILD]   The main job on the embedded model: quantize to 4 bits, verify, evaluate, decide, bench.
set -eu
cd "$(dirname "$0")/.."
build=${1:-build}
model=evals/demo-model out=build/demo/demo-model-W4
rm -rf build/demo
mkdir -p build/demo
say() { printf '\n== %s\n' "$*"; }
run() { echo "\$ $(basename "$1") ${*:2}"; "$@"; }

say "1. Original"
run "$build/infq" inspect "$model"
say "2. Quantize to 4 bits"
run "$build/infq" quantize --bits 4 "$model" -o "$out" --quiet
say "3. Verify the stored bytes against the original"
run "$build/infq" verify "$out" --source "$model"
say "4. Evaluate both on every generated task set and decide"
verdict=0
run "$build/infeval" "$model" "$out" --tasks evals/tasks --quiet || verdict=$?
say "5. Bench the compressed model"
met=0
run "$build/infbench" "$out" --target "p90 ttft < 200ms" --quiet || met=$?
case $verdict in
0) answer="pass" ;;
1) answer="fail: the loss is larger than the margin" ;;
6) answer="undecided: more items are needed" ;;
*) echo "demo: infeval stopped with exit code $verdict"; exit "$verdict" ;;
esac
case $met in
0) speed="met" ;;
1) speed="not met" ;;
6) speed="undecided" ;;
*) echo "demo: infbench stopped with exit code $met"; exit "$met" ;;
esac
say "Verdict"
echo "quality gate: $answer"
echo "target p90 ttft < 200ms: $speed"
