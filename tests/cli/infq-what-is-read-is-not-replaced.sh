m=$ROOT/evals/demo-model; mkdir big; cp -rL "$m" big/m; cp big/m/config.json big; ln -s big/m link; sha256sum big/m/* >before
for out in big/m big link; do infq quantize -q -f big/m -o $out; infq convert -q -f big/m -o $out; done
infq convert -q -f big/m -o big/m/model.safetensors
infq quantize -q -f big/m/model.safetensors -o big/m/model.safetensors
infeval reference -f big/m --text big/m/config.json -o big/m/config.json
echo '{}' >r.json; infeval report r.json -o r.json; code=$?
cat r.json; sha256sum --quiet -c before && exit $code
