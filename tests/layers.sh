#!/bin/bash
# Fails when a folder includes one that it may not (STYLE section 1, the table of docs/design/layers.md).
set -eu
cd "$(dirname "$0")/.."
bad=0
allow() { # folder, allowed prefixes
    local folder=$1; shift
    local f inc ok a
    while IFS=: read -r f inc; do
        inc=$(sed -E 's/.*"([^"]+)".*/\1/' <<<"$inc")
        ok=0
        for a in "$folder/" "$@"; do [[ $inc == "$a"* ]] && ok=1; done
        # What siblings share among themselves is for them only.
        [[ $inc == *_int.h && $inc != "$folder"/* ]] && ok=0
        if [ $ok = 0 ]; then echo "layers: $f includes $inc"; bad=1; fi
    done < <(grep -rHE '^#[[:space:]]*include[[:space:]]+"' --include='*.[ch]' --include='*.inc' --include='*.cu' "$folder" \
        2>/dev/null)
}
B=lib/base/ T=lib/tensor/ I=lib/io/ F=lib/format/ D=lib/backend/ M=lib/model/
allow lib/base
allow lib/tensor $B
allow lib/io $B $T
allow lib/backend $B $T
allow lib/format $B $T $I
allow kernels $B $T lib/backend/
allow lib/model $B $T $I $F $D
allow lib/compress $B $T $I $F $D $M
allow lib/train $B $T $I $F $D $M
allow lib/eval $B $T $I $F $D $M
allow lib/serve $B $T $I $F $D $M lib/compress/ lib/train/ lib/eval/
allow lib/bench $B $T $I $F $D $M lib/compress/ lib/train/ lib/eval/
allow lib/report $B $T $I $F $D $M lib/compress/ lib/train/ lib/eval/
allow lib/recipe $B $T $I
allow tools lib/
dup=$(find lib kernels tools tests -name '*.[ch]' -printf '%f\n' | sort | uniq -d)
[ -z "$dup" ] || { echo "layers: file names twice in the tree: $dup"; bad=1; }
long=$(git ls-files '*.c' '*.h' '*.inc' '*.cu' | xargs -r wc -l | awk '$2 != "total" && $1 > 1200 {print $2}')
[ -z "$long" ] || { echo "layers: over 1200 lines: $long"; bad=1; }
[ $bad = 0 ] && echo "layers: ok"
exit $bad
