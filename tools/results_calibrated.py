"""Sections of results.py on calibrated methods: pruning."""
import json, os, shutil, subprocess

from results_common import B, ROOT, SHARED, keep, load, run, tool

O = B + '/results/out/'
C4 = SHARED + '/data/calibration-c4/c4.utf8.gz'
TOKENS = 8192
CALIB = ['--calib', C4]
W4 = ['quantize', '--bits', '4', '--group-size', '64']
# name, what is shown, steps of infq (each works on the result of the one before)
OURS = [
    ('magnitude-50', 'magnitude, 50 %', [['prune', '--method', 'magnitude', '--sparsity', '0.5']]),
    ('wanda-50', 'Wanda, 50 %', [['prune', '--method', 'wanda', '--sparsity', '0.5', *CALIB]]),
    ('sparsegpt-50', 'SparseGPT, 50 %', [['prune', '--method', 'sparsegpt', '--sparsity', '0.5', *CALIB]]),
    ('magnitude-2-4', 'magnitude, 2:4', [['prune', '--method', 'magnitude', '--pattern', '2:4']]),
    ('wanda-2-4', 'Wanda, 2:4', [['prune', '--method', 'wanda', '--pattern', '2:4', *CALIB]]),
    ('sparsegpt-2-4', 'SparseGPT, 2:4', [['prune', '--method', 'sparsegpt', '--pattern', '2:4', *CALIB]]),
    ('joint-50', '50 % and 4 bits in one pass', [W4 + ['--method', 'gptq', '--sparsity', '0.5', *CALIB]]),
    ('after-50', 'SparseGPT 50 %, then 4 bits by weighted search',
     [['prune', '--method', 'sparsegpt', '--sparsity', '0.5', *CALIB], W4 + ['--method', 'search', *CALIB]]),
    ('joint-2-4', '2:4 and 4 bits in one pass', [W4 + ['--method', 'gptq', '--pattern', '2:4', *CALIB]]),
    ('after-2-4', 'SparseGPT 2:4, then 4 bits by weighted search',
     [['prune', '--method', 'sparsegpt', '--pattern', '2:4', *CALIB], W4 + ['--method', 'search', *CALIB]]),
    ('w4', '4 bits alone, for comparison', [W4 + ['--method', 'gptq', *CALIB]]),
]
# The published methods, by tools/prune_reference.py: needs $PYTHON with torch and transformers.
THEIRS = [
    ('wanda-50', ['--method', 'wanda']), ('sparsegpt-50', ['--method', 'sparsegpt']),
    ('wanda-2-4', ['--method', 'wanda', '--pattern', '2:4']), ('sparsegpt-2-4', ['--method', 'sparsegpt', '--pattern', '2:4']),
]


def distance(a, out):
    j = json.loads(tool('infeval', a.model, out, '--ppl', a.text, '--metrics', 'kld', '--window', '512', '--tokens', str(TOKENS), '--json', '--quiet',
                        ok=(0, 1, 6))[0])
    d = j['texts'][0]['distance'][0]['all']
    return dict(kld=d['kld_mean'], se=d['kld_stderr'], ln_ratio=d['ln_ratio'])


def ours(a, name, steps):
    made, source, wall = [], a.model, 0.0
    for i, s in enumerate(steps):
        out = O + 'prune-%s-%d' % (name, i)
        shutil.rmtree(out, ignore_errors=True)
        wall += tool('infq', *s, source, '-o', out, '--quiet')[1]
        made.append(out)
        source = out
    row = dict(distance(a, source), wall_s=wall)
    for out in made:
        shutil.rmtree(out)
    return row


def theirs(a, name, options):
    out = O + 'prune-reference-' + name
    run([os.environ['PYTHON'], ROOT + '/tools/prune_reference.py', '--text', C4, *options, a.model, out])
    row = distance(a, out)
    shutil.rmtree(out)
    return row


def has_torch():
    p = os.environ.get('PYTHON')
    return bool(p) and subprocess.run([p, '-c', 'import torch, transformers'], stderr=subprocess.DEVNULL).returncode == 0


def prune(a):
    """Rows that are there are kept: remove build/results/prune.json to measure all of them again."""
    d = load('prune') or dict(ours={}, theirs={})
    for name, _, steps in OURS:
        if name not in d['ours']:
            d['ours'][name] = ours(a, name, steps)
            keep('prune', d)
            print('prune', name, flush=True)
    for name, options in THEIRS if has_torch() else []:
        if name not in d['theirs']:
            d['theirs'][name] = theirs(a, name, options)
            keep('prune', d)
            print('prune, published', name, flush=True)
    keep('prune', d)


def prune_page(d):
    o = ['## Pruning', '', '`infq prune`, or `infq quantize --bits 4 --group-size 64 --method gptq --sparsity 0.5`; calibration: 64 windows of 512 tokens of C4. KLD against the '
         'original on the first %d tokens of wikitext-2, windows of 512. Published: tools/prune_reference.py, the two papers on torch with the same tokens. Commit %s, %s.'
         % (TOKENS, d['commit'], d['at']), '', '| | KLD | SE | ln ppl ratio | seconds | published: KLD | ln ppl ratio |', '| --- | ---: | ---: | ---: | ---: | ---: | ---: |']
    for name, what, _ in OURS:
        r, t = d['ours'].get(name), d['theirs'].get(name)
        if r:
            o.append('| %s | %.3f | %.3f | %.3f | %.0f | %s |' % (what, r['kld'], r['se'], r['ln_ratio'], r['wall_s'],
                                                                '%.3f | %.3f' % (t['kld'], t['ln_ratio']) if t else '|'))
    return o + ['']


MEASURE = dict(prune=prune)
PAGE = dict(prune=prune_page)


def page():
    o = []
    for s, lines in PAGE.items():
        d = load(s)
        if d:
            o += lines(d)
    return o
