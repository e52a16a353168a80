m=$ROOT/evals/demo-model
for a in '--method magnitude --sparsity 0.5' '--method magnitude --pattern 2:4' '--method magnitude --sparsity 0.3 --compare layer' \
    '--sparsity 0.5 --calib-tokens 512' '--method sparsegpt --pattern 4:8 --calib-tokens 512'; do
    infq prune -q $a "$m" -o out --force | sed -n '2p;$p' | sed 's/ in [0-9]* matrices/ in matrices/'
    infq prune -q $a "$m" -o again --threads 1 --force >/dev/null && diff -r out again && echo same bytes
    infq verify out | sed "s|$ROOT/||;s|largest relative error [0-9.]*|...|"
    cmp out/config.json "$m/config.json"
done
infq quantize -q --method gptq --pattern 2:4 --calib-tokens 512 "$m" -o joint >/dev/null
infq verify joint | sed "s|$ROOT/||;s|largest relative error [0-9.]*|...|;s|[0-9.]* % zeros|... zeros|"
grep -A5 '"sparsity": {' joint/infq.json
