#!/bin/bash
# usage: tests/recipes.sh [BUILD]   Every recipe on the demo model, twice: the first run ends with a verdict, the second does nothing, its receipt holds.
set -u
cd "$(dirname "$0")/.."
export PATH=$(cd "${1:-build}" && pwd):$PATH OMP_WAIT_POLICY=passive
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
passed=0 failed=0
small="--set limit=40 --set requests=4 --set tasks=evals/tasks/copy.jsonl,evals/tasks/sums.jsonl"
text="--set text=evals/calib.txt --set tokens=1024"
declare -A args=(
    [int4-weight-only]="$text --set model=evals/demo-model --set output=$dir/int4 --set prompt_tokens=32 --set new_tokens=8"
    [w8a8-server]="$text --set model=evals/demo-model --set output=$dir/w8a8 --set prompt_tokens=32 --set new_tokens=8"
    [fp8-server]="$text --set model=evals/demo-model --set output=$dir/fp8 --set prompt_tokens=32 --set new_tokens=8"
    [compare-with-smaller-model]="--set larger=evals/demo-model --set smaller=evals/demo-model --set prompt_tokens=32"
    [release-gate]="$text --set model=evals/demo-model --set compressed=$dir/int4 --set runs=2"
)
say() { echo "FAIL recipe $1: $2"; failed=$((failed + 1)); }
for r in recipes/int4-weight-only.yaml $(ls recipes/*.yaml | grep -v -e int4-weight-only -e policy); do # the gate takes what the first one makes
    name=$(basename "$r" .yaml)
    [ -n "${args[$name]:-}" ] || { say "$name" "tests/recipes.sh does not run it"; continue; }
    # shellcheck disable=SC2086
    infq run -q "$r" $small ${args[$name]} -o "$dir/$name.run" >"$dir/out" 2>"$dir/err"
    code=$?
    [ $code = 0 ] || [ $code = 1 ] || [ $code = 6 ] || { say "$name" "exit $code: $(tail -1 "$dir/err")"; continue; }
    # shellcheck disable=SC2086
    again=$(infq run -q "$r" $small ${args[$name]} -o "$dir/$name.run" --json 2>&1)
    [ $? = $code ] || { say "$name" "another exit code the second time"; continue; }
    n=$(grep -o '"cached": *false' <<<"$again" | wc -l)
    [ "$n" -le 1 ] || { say "$name" "$n steps ran again"; continue; } # the receipt is always written anew
    [ -s "$dir/$name.run/report.html" ] || { say "$name" "no report"; continue; }
    if [ -e "$dir/$name.run/receipt.json" ] && ! infq receipt verify -q "$dir/$name.run/receipt.json" >"$dir/out"; then
        say "$name" "$(head -3 "$dir/out")"; continue
    fi
    echo "ok recipe $name (exit $code)"
    passed=$((passed + 1))
done
echo "recipes: $passed passed, $failed failed"
[ $failed = 0 ]
