#!/usr/bin/env python3
"""Trains the demo model of evals/demo-model on text of `infq gen text`.

Run by `make train-demo`; needs torch, tokenizers and safetensors. The steps, all by default:
  tokenizer  byte-level BPE of the first 4 MB of the text
  train      a Llama-shaped model on the CPU, until --minutes are over; a checkpoint every 500 steps
  export     evals/demo-model in BF16
  score      a table: accuracy of every task set, KL divergence and perplexity on the calibration
             text, at full precision and with plain round-to-nearest weights of 8 to 2 bits
The weights of two runs differ: the workers share them without locks and the schedule follows the
clock. Text, tokenizer and task sets are the same in every run.
"""
import argparse
import json
import math
import os
import subprocess
import time

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

TEXT_SEED = 11
TEXT_MB = 90
VOCAB, HIDDEN, LAYERS, FFN, CONTEXT = 1024, 128, 5, 384, 256
HEADS, KV_HEADS, HEAD_DIM = 4, 2, 32
ROPE_THETA, EPS, INIT = 10000.0, 1e-5, 0.05
BOS, EOS = 0, 1
SHORT = 128          # tokens of a row in the first four fifths of the time, then CONTEXT
ANSWER_WEIGHT = 4


def linear(n_in, n_out):
    return torch.nn.Linear(n_in, n_out, bias=False)


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.q = linear(HIDDEN, HEADS * HEAD_DIM)
        self.k, self.v = (linear(HIDDEN, KV_HEADS * HEAD_DIM) for _ in range(2))
        self.o = linear(HEADS * HEAD_DIM, HIDDEN)
        self.gate, self.up = (linear(HIDDEN, FFN) for _ in range(2))
        self.down = linear(FFN, HIDDEN)
        self.n1, self.n2 = (torch.nn.Parameter(torch.ones(HIDDEN)) for _ in range(2))

    def forward(self, x, cos, sin):
        b, t, _ = x.shape
        h = norm(x, self.n1)
        q = rope(self.q(h).view(b, t, HEADS, HEAD_DIM).transpose(1, 2), cos, sin)
        k = rope(self.k(h).view(b, t, KV_HEADS, HEAD_DIM).transpose(1, 2), cos, sin)
        v = self.v(h).view(b, t, KV_HEADS, HEAD_DIM).transpose(1, 2)
        rep = HEADS // KV_HEADS
        k, v = k.repeat_interleave(rep, 1), v.repeat_interleave(rep, 1)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(a.transpose(1, 2).reshape(b, t, -1))
        h = norm(x, self.n2)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


def norm(x, w):
    return F.rms_norm(x, (HIDDEN,), w.to(x.dtype), EPS)


def rope(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(VOCAB, HIDDEN)
        self.blocks = torch.nn.ModuleList(Block() for _ in range(LAYERS))
        self.nf = torch.nn.Parameter(torch.ones(HIDDEN))
        for p in self.parameters():
            if p.dim() == 2:
                torch.nn.init.normal_(p, std=INIT)
        for b in self.blocks:
            for p in (b.o.weight, b.down.weight):
                torch.nn.init.normal_(p, std=INIT / math.sqrt(2 * LAYERS))
        inv = ROPE_THETA ** (-torch.arange(0, HEAD_DIM, 2).float() / HEAD_DIM)
        ang = torch.outer(torch.arange(CONTEXT).float(), inv)
        ang = torch.cat((ang, ang), -1)
        self.register_buffer("cos", ang.cos(), persistent=False)
        self.register_buffer("sin", ang.sin(), persistent=False)

    def forward(self, ids):
        t = ids.shape[1]
        x = self.embed(ids)
        cos, sin = self.cos[:t].to(x.dtype), self.sin[:t].to(x.dtype)
        for b in self.blocks:
            x = b(x, cos, sin)
        return F.linear(norm(x, self.nf), self.embed.weight)


def gen(infq, seed, n_bytes):
    command = [infq, "gen", "text", "--seed", str(seed), "--bytes", str(n_bytes), "--marks"]
    return subprocess.run(command, check=True, capture_output=True).stdout.decode()


def source(args, n_bytes):
    if args.text:
        with open(args.text) as f:
            return f.read(n_bytes)
    return gen(args.infq, TEXT_SEED, n_bytes)


def make_tokenizer(text, path):
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tok.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB,
        special_tokens=[AddedToken("<s>", special=True), AddedToken("</s>", special=True)],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tok.train_from_iterator(text.replace("\t", "").splitlines(keepends=True), trainer)
    tok.save(path)
    return tok


def pack(tok, text, width, g):
    """Rows of width + 1 tokens, each beginning with a document, half of them with <s> in front; and
    the weight of each token in the loss: ANSWER_WEIGHT from the mark of a document on, else 1."""
    docs = text.splitlines(keepends=True)
    rows, weights, row, weight = [], [], [], []
    coin = torch.rand(len(docs), generator=g).tolist()
    for at in range(0, len(docs), 50000):
        halves = [d.partition("\t") for d in docs[at:at + 50000]]
        asked = tok.encode_batch_fast([h[0] for h in halves], add_special_tokens=False)
        answered = tok.encode_batch_fast([h[2] for h in halves], add_special_tokens=False)
        for i, (a, b) in enumerate(zip(asked, answered)):
            if not row and coin[at + i] < 0.5:
                row, weight = [BOS], [1]
            row += a.ids + b.ids
            weight += [1] * len(a.ids) + [ANSWER_WEIGHT] * len(b.ids)
            if len(row) > width:
                rows.append(torch.tensor(row[:width + 1], dtype=torch.int16))
                weights.append(torch.tensor(weight[:width + 1], dtype=torch.int8))
                row, weight = [], []
    return torch.stack(rows), torch.stack(weights)


def batches(rows, weights, size, seed):
    g = torch.Generator().manual_seed(seed)
    while True:
        order = torch.randperm(len(rows), generator=g)
        for at in range(0, len(order) - size + 1, size):
            ids, w = rows[order[at:at + size]].long(), weights[order[at:at + size], 1:].float()
            yield ids, w / w.sum()


def worker(rank, args, model, short, long, begin):
    """One of --workers trainers on shared weights, without locks; each has its own optimizer state."""
    torch.set_num_threads(1)
    torch.manual_seed(100 + rank)
    matrices = [p for p in model.parameters() if p.dim() == 2]
    vectors = [p for p in model.parameters() if p.dim() != 2]
    groups = [{"params": matrices, "weight_decay": 0.05}, {"params": vectors, "weight_decay": 0.0}]
    opt = torch.optim.AdamW(groups, betas=(0.9, 0.98), fused=True)
    source = batches(*short, args.tokens // SHORT, 10 + rank)
    is_long, step, n_tokens, mean = False, 0, 0, None
    while True:
        now = (time.time() - begin) / (args.minutes * 60)
        if now >= 1:
            break
        if now > 0.8 and not is_long:
            is_long, source = True, batches(*long, args.tokens // CONTEXT, 20 + rank)
        # warm up, hold, then fall to nothing over the last two fifths, by the clock
        lr = args.lr * min(1, (step + 1) / 200) * min(1, (1 - now) / 0.4)
        for group in opt.param_groups:
            group["lr"] = lr
        ids, w = next(source)
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(ids[:, :-1])
        nll = F.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
        loss = (nll * w.flatten()).sum()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        step += 1
        n_tokens += ids.numel()
        hard = nll.detach()[w.flatten() > w.min()].mean().item()
        mean = hard if mean is None else 0.98 * mean + 0.02 * hard
        if rank == 0 and (step % 200 == 0 or step == 20):
            used = time.time() - begin
            print(f"{used:.0f} s, step {step}, answers {mean:.4f} nats, lr {lr:.5f}, "
                  f"{args.workers * n_tokens / used:.0f} tokens/s", flush=True)
        if rank == 0 and step % 500 == 0:
            torch.save(model.state_dict(), args.checkpoint + ".tmp")
            os.replace(args.checkpoint + ".tmp", args.checkpoint)


def train(args, tok):
    torch.manual_seed(1)
    text = source(args, TEXT_MB * 1000000)
    cut = text.index("\n", len(text) * 4 // 5) + 1
    short = pack(tok, text[:cut], SHORT, torch.Generator().manual_seed(2))
    long = pack(tok, text[cut:], CONTEXT, torch.Generator().manual_seed(3))
    model = Model().share_memory()
    n_params = sum(p.numel() for p in model.parameters())
    n_tokens = short[0].numel() + long[0].numel()
    print(f"{n_tokens / 1e6:.1f} M tokens, {n_params} parameters", flush=True)
    shared = (args, model, short, long, time.time())
    torch.multiprocessing.spawn(worker, shared, nprocs=args.workers)
    torch.save(model.state_dict(), args.checkpoint)


def export(model, out):
    names = {"q": "self_attn.q_proj", "k": "self_attn.k_proj", "v": "self_attn.v_proj",
             "o": "self_attn.o_proj", "gate": "mlp.gate_proj", "up": "mlp.up_proj",
             "down": "mlp.down_proj"}
    t = {"model.embed_tokens.weight": model.embed.weight, "model.norm.weight": model.nf}
    for i, b in enumerate(model.blocks):
        p = f"model.layers.{i}."
        for short, long in names.items():
            t[f"{p}{long}.weight"] = getattr(b, short).weight
        t[p + "input_layernorm.weight"] = b.n1
        t[p + "post_attention_layernorm.weight"] = b.n2
    t = {k: v.detach().to(torch.bfloat16).contiguous() for k, v in t.items()}
    save_file(t, f"{out}/model.safetensors", metadata={"format": "pt"})
    os.chmod(f"{out}/model.safetensors", 0o644)
    config = {
        "architectures": ["LlamaForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
        "bos_token_id": BOS, "eos_token_id": EOS, "head_dim": HEAD_DIM, "hidden_act": "silu",
        "hidden_size": HIDDEN, "initializer_range": INIT, "intermediate_size": FFN,
        "max_position_embeddings": CONTEXT, "mlp_bias": False, "model_type": "llama",
        "num_attention_heads": HEADS, "num_hidden_layers": LAYERS,
        "num_key_value_heads": KV_HEADS, "rms_norm_eps": EPS, "rope_scaling": None,
        "rope_theta": ROPE_THETA, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
        "use_cache": True, "vocab_size": VOCAB}
    tokenizer = {
        "add_bos_token": False, "add_prefix_space": False, "bos_token": "<s>",
        "clean_up_tokenization_spaces": False, "eos_token": "</s>", "model_max_length": CONTEXT,
        "tokenizer_class": "PreTrainedTokenizerFast"}
    files = {"config.json": config, "tokenizer_config.json": tokenizer,
             "generation_config.json": {"bos_token_id": BOS, "eos_token_id": EOS}}
    for name, body in files.items():
        with open(f"{out}/{name}", "w") as f:
            json.dump(body, f, indent=2)
            f.write("\n")


@torch.no_grad()
def accuracy(model, tok, path):
    """As infeval scores: the choice whose tokens have the largest sum of log-probabilities wins.
    Returns the accuracy and the one of guessing."""
    items = [json.loads(line) for line in open(path)]
    seqs, spans = [], []
    for it in items:
        n = len(tok.encode(it["context"], add_special_tokens=False).ids)
        for c in it["choices"]:
            ids = tok.encode(it["context"] + c, add_special_tokens=False).ids
            seqs.append(ids)
            spans.append(n)
    scores = []
    for at in range(0, len(seqs), 128):
        part = seqs[at:at + 128]
        width = max(map(len, part))
        ids = torch.tensor([s + [EOS] * (width - len(s)) for s in part])
        lp = F.log_softmax(model(ids).float(), -1)
        for i, s in enumerate(part):
            a = spans[at + i]
            scores.append(sum(lp[i, j - 1, s[j]].item() for j in range(a, len(s))))
    hit, chance, at = 0, 0.0, 0
    for it in items:
        k = len(it["choices"])
        best = max(range(k), key=lambda j: scores[at + j])
        hit += best == it["gold"]
        chance += 1 / k
        at += k
    return hit / len(items), chance / len(items)


def rtn(w, bits, group):
    """Round to nearest, symmetric, signed codes of `bits` bits, one scale a group."""
    q = 2 ** (bits - 1)
    x = w.reshape(w.shape[0], -1, group)
    s = x.abs().amax(-1, keepdim=True) / (q - 0.5)
    s = torch.where(s == 0, torch.ones_like(s), s)
    return (torch.clamp(torch.round(x / s), -q, q - 1) * s).reshape(w.shape)


WIDTHS = (("BF16", 0, 0), ("W8 g128", 8, 128), ("W4 g128", 4, 128), ("W4 g64", 4, 64),
          ("W3 g64", 3, 64), ("W2 g64", 2, 64))


@torch.no_grad()
def score(args, tok):
    model = Model()
    model.load_state_dict(torch.load(args.checkpoint))
    for p in model.parameters():
        p.copy_(p.to(torch.bfloat16).float())
    clean = {k: v.clone() for k, v in model.state_dict().items()}
    with open(args.calib) as f:
        held, _ = pack(tok, f.read(), CONTEXT, torch.Generator().manual_seed(4))
    held = held[:64].long()
    base = F.log_softmax(model(held[:, :-1]), -1)
    kld, ppl, acc = [], [], {name[:-6]: [] for name in sorted(os.listdir(args.tasks))}
    chance = {}
    for _, bits, group in WIDTHS:
        model.load_state_dict(clean)
        for b in model.blocks if bits else []:
            for m in (b.q, b.k, b.v, b.o, b.gate, b.up, b.down):
                m.weight.copy_(rtn(m.weight, bits, group))
        lp = F.log_softmax(model(held[:, :-1]), -1)
        kld.append((base.exp() * (base - lp)).sum(-1).mean().item())
        ppl.append(F.nll_loss(lp.flatten(0, 1), held[:, 1:].flatten()).exp().item())
        for name in acc:
            a, chance[name] = accuracy(model, tok, f"{args.tasks}/{name}.jsonl")
            acc[name].append(a)
    lines = [["set", "chance"] + [w[0] for w in WIDTHS], ["---"] * (len(WIDTHS) + 2)]
    for name, row in acc.items():
        lines.append([name, f"{chance[name]:.3f}"] + [f"{a:.3f}" for a in row])
    means = [sum(col) / len(acc) for col in zip(*acc.values())]
    lines.append(["mean", f"{sum(chance.values()) / len(acc):.3f}"] + [f"{m:.3f}" for m in means])
    lines.append(["KL divergence, nats", ""] + [f"{k:.4f}" for k in kld])
    lines.append(["perplexity", ""] + [f"{p:.3f}" for p in ppl])
    for line in lines:
        print("| " + " | ".join(line) + " |")


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("steps", nargs="*", default=["tokenizer", "train", "export", "score"])
    p.add_argument("--infq", default="build/infq")
    p.add_argument("--text", help="marked text in a file, instead of calling --infq")
    p.add_argument("--out", default=f"{here}/demo-model")
    p.add_argument("--tasks", default=f"{here}/tasks")
    p.add_argument("--calib", default=f"{here}/calib.txt")
    p.add_argument("--checkpoint", default="/tmp/infq-demo.pt")
    p.add_argument("--minutes", type=float, default=28)
    p.add_argument("--tokens", type=int, default=2048, help="a step and worker")
    p.add_argument("--workers", type=int, default=2, help="processes of one thread")
    p.add_argument("--lr", type=float, default=2e-3)
    args = p.parse_args()
    os.makedirs(args.out, exist_ok=True)
    torch.set_num_threads(2)
    path = f"{args.out}/tokenizer.json"
    if "tokenizer" in args.steps:
        make_tokenizer(source(args, 4000000)[:4000000], path)
    tok = Tokenizer.from_file(path)
    if "train" in args.steps:
        train(args, tok)
    if "export" in args.steps:
        model = Model()
        model.load_state_dict(torch.load(args.checkpoint))
        export(model, args.out)
    if "score" in args.steps:
        score(args, tok)


if __name__ == "__main__":
    main()
