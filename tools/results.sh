#!/bin/bash
# usage: tools/results.sh   Measures everything of docs/results.md and writes it. Needs `make models` first.
# PYTHON: an interpreter with torch, transformers and compressed-tensors adds the check by those libraries.
# One with lm_eval, torch and transformers adds the section beside that harness.
# LLAMA_BIN: a folder with llama-bench and llama-quantize adds the paired speed rows.
set -eu
cd "$(dirname "$0")/.."
if [ ! -d build/models/smollm2-135m ]; then echo "results: run 'make models' first" >&2; exit 3; fi
exec python3 tools/results.py "$@"
