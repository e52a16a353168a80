# A model measured against its own stored distributions differs by nothing.
set -e
infeval reference "$ROOT/evals/demo-model" --text "$ROOT/evals/calib.txt" --tokens 1024 --window 128 -o ref --quiet >/dev/null
infeval --reference ref "$ROOT/evals/demo-model" --json --quiet | grep -o '"kld_max":[^,]*,\|"same_top":1,' | sed 's/e-[0-9]*/e-n/; s/:-\?[0-9.]*e-n/:small/; s/:0,/:small,/' | head -2
infeval --reference ref nowhere
