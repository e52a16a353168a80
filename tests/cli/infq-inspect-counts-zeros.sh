m=$ROOT/evals/demo-model
infq prune -q --method magnitude --pattern 2:4 --ignore 're:.*k_proj' "$m" -o out >/dev/null
infq inspect --zeros out | sed -n '/^zeros/,/^architecture/p'
infq prune -q --method magnitude --sparsity 0.25 "$m" -o quarter >/dev/null
infq inspect --zeros --json quarter | grep -o '"role":"down"[^}]*'
