#!/bin/bash
# usage: evals/embed.sh FILE...   Prints C source: the files as infq_builtin_manifests[] (lib/eval/manifest.h).
set -eu
echo '#include "lib/eval/manifest.h"'
i=0
for f; do
    echo "static const unsigned char text_$i[] = {"
    od -An -v -tu1 "$f" | sed -E 's/ +/,/g; s/^,//; s/$/,/'
    echo '};'
    i=$((i + 1))
done
echo 'const infq_builtin infq_builtin_manifests[] = {'
i=0
for f; do
    echo "    {\"$f\", text_$i, sizeof(text_$i)},"
    i=$((i + 1))
done
echo '    {NULL, NULL, 0},'
echo '};'
