#!/bin/sh
# usage: tools/models.sh [DIR]   Puts the model of the slower measurements (SmolLM2-135M-Instruct) under DIR (build/models).
# The weights are not part of this repository. A script of the shared folder fetches them; without it, put a model
# folder of that name there by hand.
set -eu
cd "$(dirname "$0")/.."
dir=${1:-build/models}
shared=${INFQ_SHARED:-../shared}
if [ -d "$dir/smollm2-135m" ]; then exit 0; fi
if [ -f "$shared/tools/get_smollm2.sh" ]; then exec sh "$shared/tools/get_smollm2.sh" "$dir"; fi
echo "models: put a SmolLM2-135M folder (config.json, model.safetensors, tokenizer.json) at $dir/smollm2-135m" >&2
exit 3
