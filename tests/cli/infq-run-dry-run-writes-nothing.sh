infq run --dry-run "$ROOT/recipes/w8a8-server.yaml" --set model="$ROOT/evals/demo-model" --set output=out --set tasks="$ROOT/evals/tasks" --set text="$ROOT/evals/calib.txt" >plan
echo $?; ls; grep -c '^\[' plan; grep -c '^plan: ' plan; grep -c 'after quantize' plan
infq run --dry-run "$ROOT/recipes/int4-weight-only.yaml" --set model="$ROOT/evals/demo-model" --set output=out --set group_size=96 >/dev/null
echo $?
