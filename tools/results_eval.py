"""Sections of results.py on evaluation and the gate: how often the gate is wrong, verdicts on SmolLM2, noise, diagnosis, resuming, recipes, and
the same items through the reference harness."""
import json, os, random, shutil, signal, statistics, subprocess, sys, time

from results_common import B, ROOT, SHARED, keep, load, made, run, tool

E = B + '/results/eval'
DATA = SHARED + '/data'
# What the verdicts are about: options of infq quantize, and the verdict that the issue of this suite expects (None: as it falls).
MADE = [('W8A16', ['--scheme', 'W8A16'], 'pass'), ('W4A16-channel-rtn', ['--bits', '4', '--method', 'rtn', '--group-size', 'channel'], 'fail'),
        ('W4A16-search', ['--bits', '4'], None), ('W4A16-gptq', ['--bits', '4', '--method', 'gptq'], None)]
NOISE_TASKS = ['hellaswag', 'piqa', 'arc_easy', 'winogrande', 'openbookqa', 'blimp_adjunct_island', 'blimp_anaphor_number_agreement',
               'blimp_animate_subject_trans', 'blimp_determiner_noun_agreement_2', 'blimp_distractor_agreement_relative_clause',
               'blimp_npi_present_1', 'blimp_passive_1', 'blimp_principle_A_c_command']
RUNS, NOISE_LIMIT, SEEDS = 20, 100, 20


def operating(a):
    text, wall, _ = tool('infeval', 'simulate', '--quiet')
    keep('operating', dict(text=text, wall_s=wall))


def operating_page(d):
    return ['## How often the gate is wrong', '', '`infeval simulate`, %.0f s. %s Every rate at a boundary should be 5 %% or less.' % (d['wall_s'], made(d)), '', '```',
            d['text'].strip(), '```', '']


def compressed(a, name, options):
    out = '%s/out/%s' % (E, name)
    os.makedirs(E + '/out', exist_ok=True)
    if not os.path.isdir(out):
        tool('infq', 'quantize', *options, a.model, '-o', out, '--quiet')
    return out


def noise_record(a):
    """Runs that are there are taken up, so this repeats nothing."""
    tool('infeval', 'noise', a.model, '--data', DATA, '-t', ','.join(NOISE_TASKS), '-r', str(RUNS), '--limit', str(NOISE_LIMIT), '-o', E + '/noise.json',
         '--items', E + '/runs', '--quiet', '--json')
    return E + '/noise.json'


def run_folder(i):
    """Items of run i in the shape that infeval gate reads: a folder with a file a task."""
    to = '%s/by-run/%d' % (E, i)
    os.makedirs(to, exist_ok=True)
    for t in NOISE_TASKS:
        shutil.copyfile('%s/runs/run-%d.%s.jsonl' % (E, i, t), '%s/%s.jsonl' % (to, t))
    return to


def noise(a):
    record = json.load(open(noise_record(a)))
    rng, rows, runs = random.Random(11), [], [run_folder(i + 1) for i in range(RUNS)]
    for seed in range(SEEDS):
        order = runs[:]
        rng.shuffle(order)
        x, y = order[:RUNS // 2], order[RUNS // 2:]
        args = ['gate', x[0], y[0], '--json']
        for r in x[1:]:
            args += ['--original-run', r]
        for r in y[1:]:
            args += ['--compressed-run', r]
        j = json.loads(tool('infeval', *args, ok=(0, 1, 6))[0])
        rows.append(dict(seed=seed, verdict=j['verdict'], gap=j['suite']['gap'], summary=j['summary']))
    keep('noise', dict(record=record, rows=rows))


def noise_page(d):
    r, rows = d['record'], d['rows']
    o = ['## Noise, and the model against itself', '', '`infeval noise MODEL -t ... -r %d --limit %d`: BF16 activations, residual and cache, products summed in another order each run. %s'
         % (RUNS, NOISE_LIMIT, made(d)), '', '| task | items | mean | sd over runs | 90 % interval | answers that flip |', '| --- | ---: | ---: | ---: | --- | ---: |']
    for t in r['tasks']:
        o.append('| %s | %d | %.4f | %.5f | %.5f to %.5f | %.2f %% |' % (t['task'], t['items'], t['mean'], t['sd'], t['sd_interval'][0], t['sd_interval'][1], 100 * t['flip_rate']))
    n = sum(x['verdict'] == 'pass' for x in rows)
    o += ['', 'SmolLM2 against itself: the %d runs are split at random into %d that stand for the original and %d for the compressed model, %d times (`infeval gate '
          '--original-run ... --compressed-run ...`, default policy): **%d of %d pass**, %d fail, %d undecided; largest gap seen %.2f points.'
          % (RUNS, RUNS // 2, RUNS - RUNS // 2, len(rows), n, len(rows), sum(x['verdict'] == 'fail' for x in rows), sum(x['verdict'] == 'undecided' for x in rows),
             100 * max(abs(x['gap']) for x in rows)), '']
    return o


def verdicts(a):
    record, rows = noise_record(a), []
    for name, options, expected in MADE:
        out = compressed(a, name, options)
        _, wall, code = tool('infeval', a.model, out, '--data', DATA, '--tasks', 'core', '--items', E + '/core', '--noise', record, '--json', '--quiet', ok=(0, 1, 6))
        sides, seen, early = ['%s/core/%s' % (E, os.path.basename(a.model)), '%s/core/%s' % (E, name)], [], []
        g = json.loads(tool('infeval', 'gate', *sides, '--noise', record, '--json', ok=(0, 1, 6))[0])
        for seed in range(SEEDS):
            policy = '%s/seed.json' % E
            json.dump(dict(name='seed', seed=seed + 1), open(policy, 'w'))
            s = json.loads(tool('infeval', 'gate', *sides, '--sequential', '--policy', policy, '--noise', record, '--json', ok=(0, 1, 6))[0])
            seen.append(s['stop']['items_seen'])
            early.append(s['verdict'])
        rows.append(dict(name=name, options=options, expected=expected, code=code, wall_s=wall, summary=g['summary'], verdict=g['verdict'], suite=g['suite'], seen=sorted(seen),
                         items=s['stop']['items'], early=early))
    keep('verdicts', dict(rows=rows))


def verdicts_page(d):
    o = ['## Verdicts on SmolLM2, suite core', '', '`infeval MODEL OUT --tasks core --noise noise.json`; default policy (margin 1 point, alpha 5 %%). Early: `--sequential` on the same items in '
         '%d random orders. %s' % (SEEDS, made(d)), '', '| compressed | options | verdict | gap, points (90 % interval) | items | early: items, median (range) | early verdicts |',
         '| --- | --- | --- | --- | ---: | ---: | --- |']
    for r in d['rows']:
        s, e = r['suite'], r['early']
        o.append('| %s | %s | %s | %.2f (%.2f to %.2f) | %d | %d (%d to %d) | %s |' % (
            r['name'], ' '.join(r['options']), r['verdict'], 100 * s['gap'], 100 * s['interval'][0], 100 * s['interval'][1], r['items'], r['seen'][len(r['seen']) // 2], r['seen'][0],
            r['seen'][-1], ', '.join('%s %d' % (v, e.count(v)) for v in ('pass', 'fail', 'undecided') if v in e)))
    return o + [''] + ['- %s: %s' % (r['name'], r['summary']) for r in d['rows']] + ['']


def diagnose(a):
    out = compressed(a, 'W4A16-search', ['--bits', '4'])
    text, wall, _ = tool('infeval', 'diagnose', '--text', a.text, a.model, out, '--quiet')
    keep('diagnose', dict(text=text, wall_s=wall))


def diagnose_page(d):
    return ['## Where 4 bits lose', '', '`infeval diagnose --text wiki.test.raw MODEL MODEL-W4A16-G64`, %.0f s. %s' % (d['wall_s'], made(d)), '', '```', d['text'].strip(), '```', '']


def resume(a):
    out = compressed(a, 'W4A16-search', ['--bits', '4'])

    def start(items):
        return subprocess.Popen([B + '/infeval', a.model, out, '--data', DATA, '--tasks', 'core', '--limit', '40', '--items', items, '--json', '--quiet'],
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def finish(items):
        p = start(items)
        text = p.communicate()[0]
        return json.loads(text), p.returncode

    def scored(items):
        found = {}
        for folder, _, names in os.walk(items):
            for n in names:
                found[os.path.relpath(os.path.join(folder, n), items)] = sorted(open(os.path.join(folder, n)))
        return found
    for d in ('whole', 'killed'):
        shutil.rmtree('%s/%s' % (E, d), ignore_errors=True)
    t = time.time()
    want, code = finish(E + '/whole')
    wall, rng, finished = time.time() - t, random.Random(5), 0
    for _ in range(10):
        p = start(E + '/killed')
        time.sleep(rng.random() * wall / 5)
        p.send_signal(signal.SIGKILL)
        p.wait()
        finished += p.returncode != -signal.SIGKILL
    got, again = finish(E + '/killed')
    same = {k: want[k] == got[k] for k in want if k not in ('seconds', 'first', 'second', 'models')}
    keep('resume', dict(wall_s=wall, finished=finished, same_items=scored(E + '/whole') == scored(E + '/killed'), same_code=code == again, code=code,
                        differing=[k for k in same if not same[k]]))


def resume_page(d):
    return ['## Killed while evaluating', '', '`infeval MODEL OUT --tasks core --limit 40 --items DIR` (%.0f s), killed by SIGKILL at 10 random moments and started again each time (%d had finished '
            'before): items %s, exit code %s (%d), parts of the report that differ: %s. %s' % (
                d['wall_s'], d['finished'], 'the same line by line' if d['same_items'] else 'DIFFERENT', 'the same' if d['same_code'] else 'ANOTHER', d['code'],
                ', '.join(d['differing']) or 'none', made(d)), '']


def recipes(a):
    rows = []
    env = dict(os.environ, INFQ_DATA=DATA, PATH=B + ':' + os.environ['PATH'])
    out = '%s/recipes' % E
    shutil.rmtree(out, ignore_errors=True)
    os.makedirs(out)
    common = ['--set', 'model=' + a.model, '--set', 'tasks=hellaswag,arc_easy,blimp_passive_1', '--set', 'limit=200', '--set', 'text=' + a.text]
    for name, more in (('int4-weight-only', ['--set', 'output=%s/w4' % out]), ('release-gate', ['--set', 'compressed=%s/w4' % out])):
        t = time.time()
        p = subprocess.run([B + '/infq', 'run', '%s/recipes/%s.yaml' % (ROOT, name), *common, *more, '-o', '%s/%s.run' % (out, name), '--quiet'], env=env,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        row = dict(name=name, code=p.returncode, wall_s=time.time() - t, text=p.stdout.strip(), err=p.stderr.strip())
        receipt = '%s/%s.run/receipt.json' % (out, name)
        if os.path.exists(receipt):
            row['receipt'] = subprocess.run([B + '/infq', 'receipt', 'verify', '-q', receipt], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
        rows.append(row)
    keep('recipes', dict(rows=rows))


def recipes_page(d):
    o = ['## Recipes on SmolLM2', '', 'HellaSwag, ARC easy, one BLiMP paradigm, 200 items each. %s' % made(d), '']
    for r in d['rows']:
        o += ['`infq run recipes/%s.yaml`: exit code %d, %.0f s%s' % (r['name'], r['code'], r['wall_s'], '' if 'receipt' not in r else ', receipt verify: exit code %d' % r['receipt']),
              '', '```', r['text'] or r['err'], '```', '']
    return o


def lmeval(a):
    """beside lm-evaluation-harness; left out without an interpreter (PYTHON) that has it"""
    out = B + '/results/lmeval-run.json'
    p = subprocess.run([sys.executable, ROOT + '/tools/bench_lm_eval.py', '--model', a.model, '--json', out])
    if p.returncode == 0:
        keep('lmeval', json.load(open(out)))


def lmeval_page(d):
    o = ['## Beside lm-evaluation-harness', '', '`tools/bench_lm_eval.py`: HellaSwag (%d items) and ten BLiMP paradigms (%d items each) of the same files, by %s on the CPU and by '
         '`infeval`, in turn. Whole processes; the harness with the batch size that was fastest on a tenth of the items. %s' % (
             d['hellaswag'], d['blimp'], d['versions'], made(d)), '',
         '| harness in | its batch (others: seconds of the tenth) | round | items/s: harness, infeval, ratio | without start-up | start-up s | peak MB | memory ratio | '
         'scores differ | ll differ | picks differ |', '| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |']
    for r in d['rows']:
        tried = ', '.join('%s: %.0f' % t for t in r['tried'].items())
        for i, x in enumerate(r['rounds']):
            t, m, g = x['theirs'], x['ours'], x['agreement']
            o.append('| %s | %s (%s) | %d | %.2f, %.2f, **%.2f** | %.2f, %.2f, %.2f | %.1f, %.1f | %.0f, %.0f | %.2f | %.4f | %.1e | %d of %d |' % (
                r['dtype'], r['batch'], tried, i + 1, t['rate'], m['rate'], x['ratio'], t['warm'], m['warm'], x['ratio_warm'], t['start'], m['start'],
                t['peak'] / 1e6, m['peak'] / 1e6, x['memory'], g['score'], g['ll'], g['picks'], g['items']))
    o += ['', 'Median ratios: ' + '; '.join('%s %.2f x items per second (%.2f x without start-up), %.2f of the memory' % (
        r['dtype'], *(statistics.median(x[k] for x in r['rounds']) for k in ('ratio', 'ratio_warm', 'memory'))) for r in d['rows']) +
        '. infeval reads the BF16 weights and computes in float32; the harness in bfloat16 also rounds its log-softmax, hence its other scores.', '']
    return o


MEASURE = dict(operating=operating, noise=noise, verdicts=verdicts, diagnose=diagnose, resume=resume, recipes=recipes,
               lmeval=lmeval)
PAGE = dict(operating=operating_page, noise=noise_page, verdicts=verdicts_page, diagnose=diagnose_page, resume=resume_page, recipes=recipes_page,
            lmeval=lmeval_page)


def page():
    o = []
    for s, lines in PAGE.items():
        d = load(s)
        if d:
            o += lines(d)
    return o
