#!/bin/bash
# usage: docs/cli/update.sh [BUILD]   Puts the present --help texts into the first block of each page.
set -eu
cd "$(dirname "$0")/../.."
PATH=$(cd "${1:-build}" && pwd):$PATH
tests/cli/pages | while read -r page command; do
    f=docs/cli/$page.md
    [ -f "$f" ] || printf '# %s\n\n```\n```\n' "$command" >"$f"
    $command --help >"$f.help"
    awk -v help="$f.help" '/^```/ { n++; print; if (n == 1) while ((getline line < help) > 0) print line; next } n != 1' "$f" >"$f.new"
    rm "$f.help"
    mv "$f.new" "$f"
done
