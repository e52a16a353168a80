#!/bin/bash
# Runs every Check binary, replays the fuzz corpora, runs the command-line cases; prints one closing line
# "N passed, N failed, N skipped". BUILD: folder of the binaries. Skips are counted: tests print "SKIP <reason>".
set -u
cd "$(dirname "$0")/.."
BUILD=${BUILD:-build}
passed=0 failed=0 skipped=0 why=
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
# A busy machine decides about no test: limits only end what hangs.
export CK_DEFAULT_TIMEOUT=${CK_DEFAULT_TIMEOUT:-60} CK_TIMEOUT_MULTIPLIER=${CK_TIMEOUT_MULTIPLIER:-3}
export INFQ_SHARED=${INFQ_SHARED:-$(cd .. && pwd)/shared}
for t in "$BUILD"/tests/test_*; do
    [ -x "$t" ] && [ -f "tests/$(basename "$t").c" ] || continue
    out=$("$t" 2>&1); rc=$?
    line=$(grep -E '^[0-9]+%: Checks: [0-9]+, Failures: [0-9]+, Errors: [0-9]+' <<<"$out" | tail -1)
    if [ -z "$line" ]; then
        echo "$out"; echo "FAIL $(basename "$t"): no result, exit $rc"; failed=$((failed + 1)); continue
    fi
    read -r n f e < <(sed -E 's/.*Checks: ([0-9]+), Failures: ([0-9]+), Errors: ([0-9]+).*/\1 \2 \3/' <<<"$line")
    s=$(grep -c '^SKIP ' <<<"$out")
    why+=$(sed -nE 's/^SKIP ([a-z0-9_]+_fn: )?//p' <<<"$out")$'\n'
    passed=$((passed + n - f - e - s)); failed=$((failed + f + e)); skipped=$((skipped + s))
    echo "$(basename "$t"): $line${s:+, skipped: $s}"
    if [ $((f + e)) -gt 0 ] || [ $rc -ne 0 ]; then
        grep -vE '^SKIP ' <<<"$out" | tail -40
        [ $((f + e)) -gt 0 ] || failed=$((failed + 1))
    fi
done
for z in "$BUILD"/fuzz/fuzz_*; do
    [ -x "$z" ] && [ -f "tests/fuzz/$(basename "$z").c" ] || continue
    name=$(basename "$z"); name=${name#fuzz_}
    if out=$("$z" "tests/fuzz/corpus/$name" 2>&1); then passed=$((passed + 1)); else
        echo "$out" | tail -20; echo "FAIL fuzz corpus $name"; failed=$((failed + 1)); fi
done
if [ -x tests/cli/run.sh ]; then
    out=$(BUILD=$BUILD tests/cli/run.sh 2>&1); echo "$out" | grep -vE '^ok '
    read -r p f s < <(tail -1 <<<"$out" | sed -nE 's/.* ([0-9]+) passed, ([0-9]+) failed, ([0-9]+) skipped/\1 \2 \3/p')
    [ -n "${p:-}" ] || { echo "FAIL tests/cli/run.sh: no result"; p=0 f=1 s=0; }
    passed=$((passed + p)); failed=$((failed + f)); skipped=$((skipped + s))
fi
sort <<<"$why" | sed '/^$/d' | uniq -c | sed -E 's/^ *([0-9]+) /skipped \1: /'
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
