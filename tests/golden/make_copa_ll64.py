"""Makes copa_ll64.json: log-likelihoods in float64 (transformers) of the COPA items of the golden scores of SmolLM2-135M, by the
token ids given there. Author's step; the test needs only the file. Short contexts without a first token that soaks up attention
make these the items at which float32 itself, the reference's too, is off by as much as the tolerance (1.2e-3 at item 7).

usage: make_copa_ll64.py MODEL GOLDEN_COPA_JSONL
"""
import json
import os
import sys

import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float64).eval()
out = []
for line in open(sys.argv[2]):
    item = json.loads(line)
    row = []
    for r in item["requests"]:
        ctx = item["contexts"][r["ctx"]]["ids"]
        with torch.no_grad():
            lp = model(torch.tensor([(ctx + r["ids"])[:-1]])).logits[0].log_softmax(-1)
        row.append(sum(lp[len(ctx) - 1 + k][t].item() for k, t in enumerate(r["ids"])))
    out.append(row)
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "copa_ll64.json"), "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(r) for r in out) + "\n]\n")
