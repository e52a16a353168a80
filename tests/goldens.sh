#!/bin/bash
# usage: tests/goldens.sh BUILD   Scores of the real model (build/models, made by tools/models.sh when it is not there) against
# the reference's, item by item: some minutes on two cores. Without model or shared files one skip is counted.
set -u
cd "$(dirname "$0")/.."
export INFQ_SHARED=${INFQ_SHARED:-$(cd .. && pwd)/shared} INFQ_SMOLLM2=build/models/smollm2-135m
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
if [ ! -d "$INFQ_SHARED/goldens/evals" ] || ! tools/models.sh; then
    echo "skipped 1: the real model's scores need shared golden files and the model"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
CK_RUN_CASE=real "$1"/tests/test_eval_goldens
