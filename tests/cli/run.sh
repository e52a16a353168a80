#!/bin/bash
# Runs every tests/cli/*.sh case in a fresh folder and compares: NAME.stdout.exact (equal), NAME.stderr.glob (every line is a
# pattern that some line of stderr matches; no file: stderr must be empty), NAME.exit (a number; no file: 0). Then --help of every
# command against docs/cli. A case without any of the three files fails. BUILD: folder of the binaries. A case that needs shared
# files prints "SKIP reason" and exits 0.
set -u
cd "$(dirname "$0")/../.."
root=$PWD BUILD=$(cd "${BUILD:-build}" && pwd)
export PATH=$BUILD:$PATH ROOT=$root SHARED=${INFQ_SHARED:-$root/../shared} OMP_WAIT_POLICY=passive
passed=0 failed=0 skipped=0
say() { echo "FAIL cli/$1: $2"; failed=$((failed + 1)); }
for case in tests/cli/*.sh; do
    name=$(basename "$case" .sh)
    [ "$name" = run ] && continue
    dir=$(mktemp -d)
    (cd "$dir" && bash "$root/$case" >"$dir.out" 2>"$dir.err" </dev/null)
    code=$? want=0
    [ -f "tests/cli/$name.exit" ] && want=$(cat "tests/cli/$name.exit")
    bad=
    if grep -q '^SKIP ' "$dir.out"; then
        skipped=$((skipped + 1))
        rm -rf "$dir" "$dir.out" "$dir.err"
        continue
    fi
    ls tests/cli/"$name".* | grep -qE '(stdout.exact|stderr.glob|exit)$' || bad="nothing is expected of it"
    [ "$code" = "$want" ] || bad="exit $code, $want wanted; $(tail -1 "$dir.err")"
    if [ -z "$bad" ] && [ -f "tests/cli/$name.stdout.exact" ] && ! diff -q "tests/cli/$name.stdout.exact" "$dir.out" \
        >/dev/null; then
        bad="stdout differs: $(diff "tests/cli/$name.stdout.exact" "$dir.out" | head -5)"
    fi
    if [ -z "$bad" ] && [ -f "tests/cli/$name.stderr.glob" ]; then
        while IFS= read -r pattern; do
            hit=0
            while IFS= read -r line; do
                # shellcheck disable=SC2053
                [[ $line == $pattern ]] && hit=1
            done <"$dir.err"
            [ $hit = 1 ] || bad="stderr has no line like: $pattern; it is: $(head -3 "$dir.err")"
        done <"tests/cli/$name.stderr.glob"
    elif [ -z "$bad" ] && [ -s "$dir.err" ]; then
        bad="stderr is not empty: $(head -3 "$dir.err")"
    fi
    if [ -n "$bad" ]; then say "$name" "$bad"; else passed=$((passed + 1)); echo "ok cli/$name"; fi
    rm -rf "$dir" "$dir.out" "$dir.err"
done
# --help must be the first block of the command's page.
while read -r page command; do
    # shellcheck disable=SC2086
    if diff <(awk '/^```/{n++; next} n == 1' "docs/cli/$page.md" 2>/dev/null) <($command --help) >/dev/null; then
        passed=$((passed + 1)); echo "ok help $page"
    else
        say "help-$page" "docs/cli/$page.md does not hold the text of '$command --help' (docs/cli/update.sh renews it)"
    fi
done < <(tests/cli/pages)
echo "cli: $passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
