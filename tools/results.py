#!/usr/bin/env python3
"""Measures the figures of docs/results.md by running the tools, and writes the page. Python's standard library only.

usage: results.py [--only SECTION,...] [--model DIR] [--out FILE]     sections: quantize quality tasks speed big kill,
       of the calibrated methods (results_calibrated.py) prune, and of the evaluation (results_eval.py) operating verdicts noise diagnose
       resume recipes lmeval
Each section's figures are kept in build/results/SECTION.json; the page is made from what is there, so one section can be repeated.
"""
import argparse, hashlib, json, os, random, shutil, signal, struct, subprocess, sys, time

import results_calibrated
import results_eval
from results_common import B, ROOT, SHARED, keep, load, run, tool

SCHEMES = [('W4A16', 'rtn', []), ('W4A16', 'search', []), ('W4A16_ASYM', 'rtn', []), ('W4A16_ASYM', 'search', []),
           ('W4A16', 'search', ['--group-size', '32']), ('W4A16', 'search', ['--group-size', 'channel']), ('W8A16', 'search', []),
           ('W8A8-INT8', 'search', []), ('FP8', 'search', []), ('FP8-BLOCK', 'search', [])]
BLIMP = ['adjunct_island', 'anaphor_number_agreement', 'determiner_noun_agreement_2', 'npi_present_1', 'irregular_past_participle_verbs',
         'passive_1', 'principle_A_case_2', 'regular_plural_subject_verb_agreement_2', 'transitive', 'wh_questions_object_gap']


def out_of(scheme, method, extra):
    return '%s/results/out/%s-%s%s' % (B, scheme, method, '-' + extra[1] if extra else '')


def quantize(a):
    rows = []
    for scheme, method, extra in SCHEMES:
        out = out_of(scheme, method, extra)
        shutil.rmtree(out, ignore_errors=True)
        cmd = ['quantize', '--scheme', scheme, '--method', method, *extra, a.model, '-o', out]
        # The second run is the one that counts: the source is then in the page cache.
        tool('infq', *cmd, '--json', '--quiet')
        text, wall, _ = tool('infq', *cmd, '--json', '--quiet', '--force')
        j = json.loads(text)
        v = json.loads(tool('infq', 'verify', out, '--source', a.model, '--json', ok=(0, 1))[0])
        row = dict(scheme=scheme, method=method, extra=' '.join(extra), command='infq ' + ' '.join(cmd[:-3]), report=j, verify=v, wall_s=wall)
        python = os.environ.get('PYTHON')
        if python and os.path.isdir(SHARED + '/tools'):
            p = subprocess.run([python, SHARED + '/tools/check_hf.py', out, '--source', a.model, '--rtn'], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True)
            row['check_hf'] = p.stdout.strip().split('\n')[-1]
            # The ecosystem's decoder of blocks wants widths that are multiples of 128: SmolLM2's are not, the demo model's are.
            if scheme == 'FP8-BLOCK':
                demo = out + '-demo'
                shutil.rmtree(demo, ignore_errors=True)
                tool('infq', 'quantize', '--scheme', scheme, '--method', method, 'evals/demo-model', '-o', demo, '--quiet')
                p = subprocess.run([python, SHARED + '/tools/check_hf.py', demo, '--source', 'evals/demo-model', '--rtn'],
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
                row['check_hf'] += '; on evals/demo-model ' + p.stdout.strip().split('\n')[-1]
        rows.append(row)
        print(scheme, method, *extra, 'done', flush=True)
    keep('quantize', dict(rows=rows))


def quality(a):
    text = a.text
    rows = []
    for scheme, method, extra in SCHEMES:
        j, wall, _ = tool('infeval', a.model, out_of(scheme, method, extra), '--ppl', text, '--metrics', 'kld', '--window', '512', '--tokens',
                          str(a.tokens), '--json', '--quiet', ok=(0, 1, 6))
        rows.append(dict(scheme=scheme, method=method, extra=' '.join(extra), result=json.loads(j), wall_s=wall))
        print('kld', scheme, method, *extra, flush=True)
    ppl = {}
    for convention in ('gptq', 'llamacpp'):
        j, _, _ = tool('infeval', a.model, '--ppl', text, '--convention', convention, '--tokens', str(a.tokens), '--json', '--quiet')
        ppl[convention] = json.loads(j)
    keep('quality', dict(rows=rows, ppl=ppl, tokens=a.tokens))


def tasks(a):
    names = ['hellaswag=%s/data/hellaswag/hellaswag_val_first1000.jsonl' % SHARED] + ['blimp=%s/data/blimp/%s.jsonl' % (SHARED, n) for n in BLIMP]
    names = [n if os.path.exists(n.split('=')[1]) else n + '.gz' for n in names]
    out = out_of('W4A16', 'search', [])
    text, wall, code = tool('infeval', a.model, out, '--tasks', ','.join(names), '--limit', '400', '--quiet', ok=(0, 1, 6))
    keep('tasks', dict(text=text, exit=code, wall_s=wall, files=[os.path.basename(n) for n in names]))


def speed(a):
    rows = []
    for scheme, method, extra in [('dense', '', [])] + [s for s in SCHEMES if s[1] == 'search']:
        model = a.model if scheme == 'dense' else out_of(scheme, method, extra)
        j, _, _ = tool('infbench', model, '--prompt-tokens', '512', '--max-tokens', '33', '--repeats', '12', '--warmup', '2', '--json', '--quiet')
        rows.append(dict(scheme=scheme, extra=' '.join(extra), bench=json.loads(j)))
    peer = []
    llama = os.environ.get('LLAMA_BIN')
    gguf = os.environ.get('LLAMA_GGUF_DIR')
    if llama and gguf:
        ours = out_of('W4A16', 'search', [])
        for f in sorted(os.listdir(gguf)):
            if not f.endswith('.gguf'):
                continue
            pairs = []
            for _ in range(3):     # in turn, so that both meet the same neighbours
                mine = json.loads(tool('infbench', ours, '--prompt-tokens', '512', '--max-tokens', '33', '--repeats', '5', '--warmup', '1', '--json', '--quiet')[0])
                t, _, _ = run([llama + '/llama-bench', '-m', os.path.join(gguf, f), '-p', '512', '-n', '32', '-r', '5', '-t', str(os.cpu_count()), '-o', 'json'])
                theirs = {('prefill' if r['n_prompt'] else 'decode'): r['avg_ts'] for r in json.loads(t)}
                pairs.append(dict(infq_prefill=mine['prefill_tokens_per_s'], infq_decode=mine['decode_tokens_per_s'], **theirs))
            peer.append(dict(file=f, pairs=pairs))
    quantizers = []
    source = os.environ.get('LLAMA_BF16_GGUF')
    if llama and source:
        for _ in range(3):
            mine = run([B + '/infq', 'quantize', '--bits', '4', '--no-verify', '--force', '--quiet', a.model, '-o', B + '/results/out/paired'])[1]
            rtn = run([B + '/infq', 'quantize', '--bits', '4', '--method', 'rtn', '--no-verify', '--force', '--quiet', a.model, '-o', B + '/results/out/paired'])[1]
            theirs = run([llama + '/llama-quantize', source, B + '/results/out/paired.gguf', 'Q4_0', str(os.cpu_count())])[1]
            quantizers.append(dict(search=mine, rtn=rtn, theirs=theirs))
    keep('speed', dict(rows=rows, peer=peer, quantizers=quantizers))


def big(a):
    """a random BF16 model of 4.1 GB: speed and memory of quantize"""
    folder = B + '/results/big-4.1'
    if not os.path.exists(folder + '/config.json'):
        os.makedirs(folder, exist_ok=True)
        h, f, layers, vocab = 2048, 8192, 33, 32000
        shapes = {'model.embed_tokens.weight': [vocab, h], 'model.norm.weight': [h]}
        for i in range(layers):
            p = 'model.layers.%d.' % i
            for n, s in (('self_attn.q_proj', [h, h]), ('self_attn.k_proj', [512, h]), ('self_attn.v_proj', [512, h]), ('self_attn.o_proj', [h, h]),
                         ('mlp.gate_proj', [f, h]), ('mlp.up_proj', [f, h]), ('mlp.down_proj', [h, f])):
                shapes[p + n + '.weight'] = s
            shapes[p + 'input_layernorm.weight'] = shapes[p + 'post_attention_layernorm.weight'] = [h]
        at, header = 0, {'__metadata__': {'format': 'pt'}}
        for n, s in shapes.items():
            size = 2 * s[0] * (s[1] if len(s) == 2 else 1)
            header[n] = dict(dtype='BF16', shape=s, data_offsets=[at, at + size])
            at += size
        text = json.dumps(header, separators=(',', ':')).encode()
        text += b' ' * (-len(text) % 8)
        rng = random.Random(1)
        # One megabyte of plausible BF16 weights, then shifted by a random offset for each piece of each tensor.
        base = bytearray()
        for _ in range(1 << 20):
            x = rng.gauss(0, 0.02)
            base += struct.pack('<f', x)[2:]
        base = bytes(base)
        with open(folder + '/model.safetensors', 'wb') as o:
            o.write(len(text).to_bytes(8, 'little') + text)
            left = at
            while left:
                cut = 2 * rng.randrange(1 << 19)
                piece = (base[cut:] + base[:cut])[:left]
                o.write(piece)
                left -= len(piece)
        json.dump(dict(architectures=['LlamaForCausalLM'], model_type='llama', hidden_size=h, intermediate_size=f, num_hidden_layers=layers,
                       num_attention_heads=32, num_key_value_heads=8, head_dim=64, vocab_size=vocab, max_position_embeddings=2048, rms_norm_eps=1e-5,
                       hidden_act='silu', tie_word_embeddings=True, torch_dtype='bfloat16', rope_theta=10000.0), open(folder + '/config.json', 'w'), indent=2)
    rows = []
    size = os.path.getsize(folder + '/model.safetensors')
    for method in ('rtn', 'search'):
        out = B + '/results/big-' + method
        best = None
        for _ in range(2):
            shutil.rmtree(out, ignore_errors=True)
            text, wall, _ = tool('infq', 'quantize', '--bits', '4', '--method', method, '--no-verify', folder, '-o', out, '--json', '--quiet')
            if best is None or wall < best[1]:
                best = (json.loads(text), wall)
        rows.append(dict(method=method, bytes=size, report=best[0], wall_s=best[1]))
        shutil.rmtree(out, ignore_errors=True)
    keep('big', dict(rows=rows, largest_tensor=2 * 2048 * 32000))


def kill(a):
    out = B + '/results/killed'

    def digest(path):
        h = hashlib.sha256()
        for f in sorted(os.listdir(path)):
            h.update(f.encode() + open(os.path.join(path, f), 'rb').read())
        return h.hexdigest()
    cmd = [B + '/infq', 'quantize', '--bits', '4', a.model, '-o', out, '--quiet']
    shutil.rmtree(out, ignore_errors=True)
    t = time.time()
    subprocess.run(cmd, check=True, stdout=subprocess.DEVNULL)
    whole, want = time.time() - t, digest(out)
    rng, seen, done = random.Random(7), 0, 0
    shutil.rmtree(out)
    for _ in range(20):
        p = subprocess.Popen(cmd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(rng.random() * whole)
        p.send_signal(signal.SIGKILL)
        p.wait()
        if os.path.exists(out):
            done += 1
            if digest(out) != want:
                seen += 1
            shutil.rmtree(out)
    subprocess.run(cmd, check=True, stdout=subprocess.DEVNULL)
    keep('kill', dict(kills=20, finished_before_kill=done, incomplete_seen=seen, same_bytes=digest(out) == want))


def page(a):
    cpu = next((l.split(':', 1)[1].strip() for l in open('/proc/cpuinfo') if l.startswith('model name')), '?')
    o = ['# Measured results', '', 'Made by `make results` (tools/results.py); nothing here is typed by hand. Machine: %s, %d processors, shared with '
         'others, so times vary; ratios measured in one run are worth more than times.' % (cpu, os.cpu_count()), '',
         'Model: SmolLM2-135M-Instruct, dithered BF16 (`make models`), 134,515,008 parameters, 269 MB.', '']
    q = load('quantize')
    if q:
        o += ['## Quantize, verify, load elsewhere', '', '`infq quantize --scheme S --method M`, then `infq verify --source`, then, with the ecosystem\'s libraries, '
              'check_hf.py --rtn. Commit %s, %s.' % (q['commit'], q['at']), '',
              '| scheme | method | options | MB | bits a weight | in quantized | seconds | peak MB (plan) | largest relative error | verify | check_hf |',
              '| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- | --- |']
        for r in q['rows']:
            j = r['report']
            o.append('| %s | %s | %s | %.1f | %.3f | %.3f | %.2f | %.1f (%.1f) | %.4f | %s | %s |' % (
                j['plan']['scheme'], r['method'], r['extra'], j['plan']['file_bytes_out'] / 1e6, j['plan']['bits_per_weight'], j['plan']['bits_per_weight_quantized'],
                j['seconds'], j['peak_memory_bytes'] / 1e6, j['plan']['peak_memory_bytes'] / 1e6, r['verify']['result']['largest_relative_error'],
                'pass' if r['verify']['result']['passed'] else 'FAIL', r.get('check_hf', 'not run')))
        o.append('')
    k = load('quality')
    if k:
        o += ['## Distance from the original', '', '`infeval MODEL OUT --ppl wiki.test.raw --metrics kld --window 512 --tokens %d`: wikitext-2, windows of 512 with an empty context. '
              'Commit %s, %s.' % (k['tokens'], k['commit'], k['at']), '',
              '| scheme | method | options | KLD | SE | median | 99 % | same top | ln ppl ratio |', '| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |']
        for r in k['rows']:
            d = r['result']['texts'][0]['distance'][0]['all']
            o.append('| %s | %s | %s | %.5f | %.5f | %.5f | %.4f | %.4f | %.5f |' % (r['scheme'], r['method'], r['extra'], d['kld_mean'], d['kld_stderr'], d['kld_median'],
                                                                                  d['kld_p99'], d['same_top'], d['ln_ratio']))
        o += ['', 'Perplexity of the original: ' + ', '.join('%s %.4f' % (c, j['texts'][0]['perplexity']['models'][0]['ppl']) for c, j in k['ppl'].items()) + '.', '']
    t = load('tasks')
    if t:
        o += ['## Tasks', '', '`infeval MODEL MODEL-W4A16-G64 --tasks ... --limit 400` (HellaSwag, ten BLiMP paradigms), %.0f s, exit code %d. Commit %s, %s.' % (
            t['wall_s'], t['exit'], t['commit'], t['at']), '', '```', t['text'].strip(), '```', '']
    s = load('speed')
    if s:
        o += ['## Speed of the engine', '', '`infbench OUT --prompt-tokens 512 --max-tokens 33`. Commit %s, %s.' % (s['commit'], s['at']), '',
              '| model | options | prefill tokens/s | of measured GFLOP/s | decode tokens/s | MB a token | of measured GB/s | TTFT P50 ms | ITL P50 ms |',
              '| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |']
        for r in s['rows']:
            b = r['bench']
            o.append('| %s | %s | %.0f | %.0f %% of %.0f | %.1f | %.1f | %.0f %% of %.1f | %.1f | %.2f |' % (
                r['scheme'], r['extra'], b['prefill_tokens_per_s'], 100 * b['share_of_flops'], b['peak_flop_per_s'] / 1e9, b['decode_tokens_per_s'],
                b['decode_bytes_per_token'] / 1e6, 100 * b['share_of_bandwidth'], b['read_bandwidth_bytes_per_s'] / 1e9, b['latency_ms']['ttft']['p50'], b['latency_ms']['itl']['p50']))
        if s['peer']:
            o += ['', 'Beside llama.cpp (llama-bench -p 512 -n 32, all processors), in turn, three times; ours is W4A16 groups of 64 with the head in BF16:', '',
                  '| llama.cpp file | prefill ours / theirs | decode ours / theirs | theirs: prefill, decode tokens/s |', '| --- | ---: | ---: | ---: |']
            for r in s['peer']:
                med = lambda f: sorted(f(p) for p in r['pairs'])[len(r['pairs']) // 2]
                o.append('| %s | %.2f | %.2f | %.0f, %.0f |' % (r['file'], med(lambda p: p['infq_prefill'] / p['prefill']), med(lambda p: p['infq_decode'] / p['decode']),
                                                              med(lambda p: p['prefill']), med(lambda p: p['decode'])))
        if s.get('quantizers'):
            med = lambda k: sorted(p[k] for p in s['quantizers'])[1]
            o += ['', 'Quantizing SmolLM2 to 4 bits, whole commands in turn, three times: infq search %.2f s, infq rtn %.2f s, llama-quantize Q4_0 %.2f s.' % (
                med('search'), med('rtn'), med('theirs'))]
        o.append('')
    g = load('big')
    if g:
        o += ['## Quantize a model of %.1f GB' % (g['rows'][0]['bytes'] / 1e9), '', 'Random BF16 weights of a Llama shape, W4 in groups of 128, `--no-verify`, better of two runs. '
              'Commit %s, %s.' % (g['commit'], g['at']), '', '| method | seconds | MB/s of input | peak MB | planned MB | largest tensor MB |', '| --- | ---: | ---: | ---: | ---: | ---: |']
        for r in g['rows']:
            j = r['report']
            o.append('| %s | %.1f | %.0f | %s | %s | %.0f |' % (r['method'], r['wall_s'], r['bytes'] / 1e6 / r['wall_s'], '%.1f' % (j['peak_memory_bytes'] / 1e6),
                                                             '%.1f' % (j['plan']['peak_memory_bytes'] / 1e6), g['largest_tensor'] / 1e6))
        o.append('')
    d = load('kill')
    if d:
        o += ['## Killed while quantizing', '', 'SIGKILL at %d random moments: %d runs had already finished, %d incomplete folders were seen under the final name; the run after '
              'the last kill gave %s bytes. Commit %s, %s.' % (d['kills'], d['finished_before_kill'], d['incomplete_seen'], 'the same' if d['same_bytes'] else 'OTHER', d['commit'], d['at']), '']
    o += results_calibrated.page()
    o += results_eval.page()
    open(a.out, 'w').write('\n'.join(o))
    print('wrote', a.out)


def main():
    os.makedirs(B + '/results/out', exist_ok=True)
    p = argparse.ArgumentParser()
    p.add_argument('--only', default=','.join(['quantize', 'quality', 'tasks', 'speed', 'big', 'kill'] + list(results_calibrated.MEASURE) + list(results_eval.MEASURE)))
    p.add_argument('--model', default=B + '/models/smollm2-135m')
    p.add_argument('--text', default=SHARED + '/data/wikitext-2/wiki.test.raw')
    p.add_argument('--tokens', type=int, default=32768)
    p.add_argument('--out', default=ROOT + '/docs/results.md')
    a = p.parse_args()
    if not os.path.exists(a.text):
        a.text += '.gz'
    for s in a.only.split(','):
        if s:
            (results_eval.MEASURE.get(s) or results_calibrated.MEASURE.get(s) or globals()[s])(a)
    page(a)


main()
