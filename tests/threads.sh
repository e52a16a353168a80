#!/bin/bash
# usage: tests/threads.sh [BUILD]   Builds everything with clang's ThreadSanitizer into BUILD (build/tsan) and runs what uses threads: exits with 1 and the
# first lines of each report when two threads touch the same memory without order. LLVM's OpenMP runtime with its Archer tool tells the sanitizer of
# regions and barriers. With gcc's runtime, which tells it nothing, every region is reported: arguments that the caller writes and the team reads.
set -eu
cd "$(dirname "$0")/.."
root=$PWD build=${1:-build/tsan}
archer=$(find /usr/lib/llvm-*/lib -name libarcher.so 2>/dev/null | sort -V | tail -1)
if ! command -v clang >/dev/null || [ -z "$archer" ]; then
    echo "SKIP clang and LLVM's libarcher.so (libomp-dev) are needed"
    exit 0
fi
make -j"$(nproc)" --no-print-directory BUILD="$build" CC=clang CFLAGS="-fsanitize=thread -O1 -Wno-unknown-warning-option -Wno-string-plus-int" LDFLAGS=-fsanitize=thread \
    "$build/infq" "$build/infeval" "$build/infbench" "$build/tests/test_base" >/dev/null
build=$(cd "$build" && pwd)
export LD_LIBRARY_PATH=${archer%/*} OMP_TOOL_LIBRARIES=$archer TSAN_OPTIONS="ignore_noninstrumented_modules=1 exitcode=66" CK_FORK=no CK_RUN_CASE=machine
dir=$(mktemp -d) failed=0
trap 'rm -rf "$dir"' EXIT
m=$root/evals/demo-model t=$root/evals/calib.txt o=$root/evals/tasks/order.jsonl
run() {
    local code=0
    "$@" >"$dir/out" 2>"$dir/err" || code=$?
    if grep -q 'WARNING: ThreadSanitizer' "$dir/err"; then
        failed=1
        echo "FAIL $(basename "$1") ${*:2}"
        grep -A 12 'WARNING: ThreadSanitizer' "$dir/err" | head -40
    elif [ $code != 0 ] && [ $code != 1 ] && [ $code != 6 ]; then
        failed=1
        echo "FAIL $(basename "$1") ${*:2}: exit $code, $(tail -1 "$dir/err")"
    fi
}
run "$build/tests/test_base"
run "$build/infq" quantize "$m" -o "$dir/rtn" --method rtn --threads 3 -q
run "$build/infq" quantize "$m" -o "$dir/gptq" --method gptq --calib self --calib-tokens 256 --threads 3 -q
run "$build/infq" verify "$dir/rtn" --threads 3
run "$build/infq" generate "$m" --prompt the --max-tokens 24 --threads 3
run "$build/infeval" "$m" "$dir/rtn" --tasks "$o" --limit 60 --metrics kld --ppl "$t" --tokens 512 --threads 3 -q
run "$build/infeval" "$m" "$dir/gptq" --tasks "$o" --limit 40 --sequential --threads 3 -q
run "$build/infeval" diagnose "$m" "$dir/rtn" --text "$t" --tokens 256 --window 64 --threads 3 -q
run "$build/infeval" noise "$m" --tasks "$o" --runs 3 --limit 20 --threads 3 -q
run "$build/infbench" "$m" --prompt-tokens 16 --max-tokens 8 --repeats 2 --warmup 0 --threads 3 -q
[ $failed = 0 ] && echo "threads: ok"
exit $failed
