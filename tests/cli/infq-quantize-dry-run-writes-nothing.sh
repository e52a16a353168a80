infq quantize --bits 4 --dry-run "$ROOT/evals/demo-model" -o out >plan; ls; grep -c "35 matrices" plan
