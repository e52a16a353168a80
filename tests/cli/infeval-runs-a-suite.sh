infeval "$ROOT/evals/demo-model" --tasks demo --data "$ROOT/evals" --limit 3 --quiet | grep -c '^demo_.* 3  acc'
infeval "$ROOT/evals/demo-model" --tasks demo_world,demo_copy --data "$ROOT/evals" --limit 3 --quiet | grep '^demo_' | sed 's/  acc .*)//'
infeval tasks --data "$ROOT/evals" demo | grep -c there
infeval "$ROOT/evals/demo-model" --tasks copa,demo_world --skip-missing --data "$ROOT/evals" --limit 3 2>warning | grep -c '^demo_'
grep -c 'left out: copa' warning
