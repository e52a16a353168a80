#!/usr/bin/env python3
"""The published Wanda and SparseGPT, written from the papers (arXiv 2306.11695, 2301.00774) on torch and transformers, to compare infq prune with.

usage: prune_reference.py --method wanda|sparsegpt|magnitude [--sparsity X | --pattern N:M] --text FILE [--tokens N] MODEL OUT

Same tokens as infq prune: the first N of the text, in windows of 512. Sequential: a block's inputs come from pruned blocks before it. N values of M stay.
"""
import argparse, gzip, os, shutil

import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM

KINDS = ['self_attn.q_proj', 'self_attn.k_proj', 'self_attn.v_proj', 'self_attn.o_proj', 'mlp.gate_proj', 'mlp.up_proj', 'mlp.down_proj']


def smallest(score, a):
    """mask of what goes: in each row, or in each M columns"""
    mask = torch.zeros_like(score, dtype=torch.bool)
    if a.m:
        s = score.reshape(score.shape[0], -1, a.m)
        mask = torch.zeros_like(s, dtype=torch.bool).scatter_(2, s.argsort(2)[:, :, :a.m - a.n], True).reshape(score.shape)
    else:
        mask.scatter_(1, score.argsort(dim=1, stable=True)[:, :int(score.shape[1] * a.sparsity)], True)
    return mask


def sparsegpt(w, h, a, block=128, damping=0.01):
    w, h, n = w.clone(), h.clone(), h.shape[0]
    dead = h.diagonal() == 0
    h[dead, dead] = 1
    w[:, dead] = 0
    h.diagonal().add_(damping * h.diagonal().mean())
    u = torch.linalg.cholesky(torch.cholesky_inverse(torch.linalg.cholesky(h.double())), upper=True).float()
    for c0 in range(0, n, block):
        c1 = min(c0 + block, n)
        w1, err, u1 = w[:, c0:c1].clone(), torch.zeros_like(w[:, c0:c1]), u[c0:c1, c0:c1]
        mask = torch.zeros_like(w1, dtype=torch.bool)
        if not a.m:
            score = w1 ** 2 / u1.diagonal() ** 2
            mask = score <= score.flatten().sort()[0][int(score.numel() * a.sparsity)]
        for i in range(c1 - c0):
            if a.m and i % a.m == 0:
                score = w1[:, i:i + a.m] ** 2 / u1.diagonal()[i:i + a.m] ** 2
                mask[:, i:i + a.m].scatter_(1, score.topk(a.m - a.n, dim=1, largest=False)[1], True)
            q = torch.where(mask[:, i], torch.zeros_like(w1[:, i]), w1[:, i])
            e = (w1[:, i] - q) / u1[i, i]
            w1[:, i:] -= e.unsqueeze(1) * u1[i, i:].unsqueeze(0)
            w1[:, i], err[:, i] = q, e
        w[:, c0:c1] = w1
        w[:, c1:] -= err @ u[c0:c1, c1:]
    return w


def add(h, x):
    h.addmm_(x.T, x)


def prune(model, ids, a):
    caught = []

    class Stop(Exception):
        pass

    def catch(module, args, kwargs):
        caught.append((args[0] if args else kwargs.pop('hidden_states'), kwargs))
        raise Stop
    hook = model.model.layers[0].register_forward_pre_hook(catch, with_kwargs=True)
    for row in ids:
        try:
            model(row.unsqueeze(0), use_cache=False)
        except Stop:
            pass
    hook.remove()
    xs, kwargs = [x for x, _ in caught], caught[0][1]
    for number, layer in enumerate(model.model.layers):
        def forward(x):
            y = layer(x, **kwargs)
            return y[0] if isinstance(y, tuple) else y
        moments, hooks = {}, []
        for kind in KINDS:
            m = layer.get_submodule(kind)
            moments[kind] = torch.zeros(m.in_features, m.in_features)
            hooks.append(m.register_forward_pre_hook(lambda _, args, h=moments[kind]: add(h, args[0].flatten(0, -2))))
        for x in xs:
            forward(x)
        for h in hooks:
            h.remove()
        for kind in KINDS:
            w = layer.get_submodule(kind).weight
            if a.method == 'sparsegpt':
                w.data = sparsegpt(w.data, moments[kind], a)
            else:
                norm = moments[kind].diagonal().sqrt() if a.method == 'wanda' else 1.0
                w.data[smallest(w.data.abs() * norm, a)] = 0
            w.data = w.data.bfloat16().float()
        xs = [forward(x) for x in xs]
        print('block', number, flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--method', default='wanda')
    p.add_argument('--sparsity', type=float, default=0.5)
    p.add_argument('--pattern')
    p.add_argument('--text', required=True)
    p.add_argument('--tokens', type=int, default=32768)
    p.add_argument('model')
    p.add_argument('out')
    a = p.parse_args()
    a.n, a.m = map(int, a.pattern.split(':')) if a.pattern else (0, 0)
    text = (gzip.open if a.text.endswith('.gz') else open)(a.text, 'rt', encoding='utf-8', newline='').read()[:8 * a.tokens]
    ids = Tokenizer.from_file(a.model + '/tokenizer.json').encode(text, add_special_tokens=False).ids[:a.tokens // 512 * 512]
    with torch.no_grad():
        model = AutoModelForCausalLM.from_pretrained(a.model, dtype=torch.float32)
        prune(model, torch.tensor(ids).reshape(-1, 512), a)
    model.to(torch.bfloat16).save_pretrained(a.out)
    for f in ('tokenizer.json', 'tokenizer_config.json'):
        shutil.copyfile(os.path.join(a.model, f), os.path.join(a.out, f))


main()
