# A task that lists its choices is asked in two orders and four looks; equal models never differ.
set -e
cat > mine.yaml <<'Y'
name: mine
kind: choice
about: x
files:
  test: {path: mine.csv, header: true}
prompt:
  context: "Question: {{q}}\nA. {{options[0]}}\nB. {{options[1]}}\nAnswer:"
  options: ["{{a}}", "{{b}}"]
  choices: [A, B]
  labels: "{{['x', 'y']}}"
  answer: "{{right}}"
Y
printf 'q,a,b,right\nmore than two,one,four,y\nless than nine,six,ten,x\n' > mine.csv
infeval perturb "$ROOT/evals/demo-model" "$ROOT/evals/demo-model" --tasks mine.yaml --quiet > out
grep -o '^  \(as it is\|order [0-9]\|examples [0-9]\|format: [a-z ]*[a-z]\) ' out | sed 's/ *$//'
grep -c '+0.0000 *\[' out
grep -c FRAGILE out || true # prints 0 and ends with 1 when there is none
infeval perturb "$ROOT/evals/demo-model" "$ROOT/evals/demo-model" --tasks mine.yaml --axes colour
