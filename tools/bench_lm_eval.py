#!/usr/bin/env python3
"""Same items through lm-evaluation-harness (transformers on the CPU) and through infeval, in turn: items per second, start-up, peak memory,
ratios, agreement of scores. Python's standard library only; the harness runs under $PYTHON, which must import lm_eval, torch, transformers.

usage: PYTHON=python [PYTHONPATH=DIR] tools/bench_lm_eval.py [options]
  --model DIR          build/models/smollm2-135m
  --hellaswag N        first N items of hellaswag_val_first1000.jsonl (400)
  --blimp N            first N items of each of ten paradigms (100)
  --batch LIST         batch sizes tried by the harness on the pilot, of which it keeps its fastest (1,8,32,auto)
  --dtype LIST         of the harness (float32,bfloat16)
  --pilot N            one item in N for the choice of the batch size (10)
  --rounds N           pairs of full runs for each dtype (2)
  --json FILE          also write all figures

Seconds are those of whole processes. A run over one item a task gives the start-up; the rate without it is (items - tasks) / (seconds -
start-up). Memory is ru_maxrss. In a round harness and infeval run one right behind the other, so that a ratio has the same neighbours;
the ratio reported is the median.
"""
import argparse, gzip, json, os, shutil, statistics, subprocess, sys, tempfile, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SHARED = os.environ.get('INFQ_SHARED', os.path.join(ROOT, '..', 'shared'))
BLIMP = ['adjunct_island', 'anaphor_number_agreement', 'determiner_noun_agreement_2', 'npi_present_1', 'irregular_past_participle_verbs',
         'passive_1', 'principle_A_case_2', 'regular_plural_subject_verb_agreement_2', 'transitive', 'wh_questions_object_gap']
FORM = {'hellaswag': ('{{ctx}}', 'endings', '"{{label}}"', ('acc', 'acc_norm')),
        'blimp': ('', '"{{[sentence_good, sentence_bad]}}"', '0', ('acc',))}


def die(text):
    sys.exit('bench_lm_eval: ' + text)


def rows(path):
    path = path if os.path.exists(path) else path + '.gz'
    if not os.path.exists(path):
        die('no data at %s' % path)
    with (gzip.open if path.endswith('.gz') else open)(path, 'rt', encoding='utf-8') as f:
        return [line for line in f if line.strip()]


class Items:
    """Files of some items, and the harness's task files beside them."""

    def __init__(self, folder, counts, source):
        self.folder, self.n, self.names = folder, 0, []
        os.makedirs(folder)
        for name, all_rows in source.items():
            kept = all_rows[:counts[name.split('_')[0]]]
            with open('%s/%s.jsonl' % (folder, name), 'w', encoding='utf-8') as f:
                f.writelines(kept)
            context, choices, target, metrics = FORM[name.split('_')[0]]
            with open('%s/t_%s.yaml' % (folder, name), 'w') as f:
                f.write('task: t_%s\ndataset_path: json\ndataset_kwargs: {data_files: {test: "%s/%s.jsonl"}}\noutput_type: multiple_choice\n'
                        'test_split: test\nnum_fewshot: 0\ndoc_to_text: "%s"\ndoc_to_choice: %s\ndoc_to_target: %s\nmetric_list:\n'
                        % (name, folder, name, context, choices, target))
                f.writelines('  - {metric: %s, aggregation: mean, higher_is_better: true}\n' % m for m in metrics)
            self.names.append(name)
            self.n += len(kept)


def child(args, env, log):
    """seconds and peak bytes of a process; whatever it prints goes to a file"""
    with open(log, 'w') as f:
        begin = time.monotonic()
        p = subprocess.Popen(args, stdout=f, stderr=subprocess.STDOUT, env=env)
        _, status, usage = os.wait4(p.pid, 0)
        seconds = time.monotonic() - begin
        p.returncode = os.waitstatus_to_exitcode(status)
    if p.returncode != 0:
        die('%s: exit %d: %s' % (' '.join(args), p.returncode, open(log).read()[-2000:]))
    return seconds, usage.ru_maxrss * 1024


def tokenizer_folder(model, to):
    """tokenizer.json as it is: the class named beside it would make transformers 5 rebuild it by other rules"""
    os.makedirs(to)
    shutil.copy(model + '/tokenizer.json', to)
    config = {}
    if os.path.exists(model + '/tokenizer_config.json'):
        config = json.load(open(model + '/tokenizer_config.json'))
    kept = {k: config[k] for k in ('bos_token', 'eos_token', 'unk_token', 'pad_token', 'model_max_length') if k in config}
    json.dump(dict(kept, tokenizer_class='PreTrainedTokenizerFast', clean_up_tokenization_spaces=False), open(to + '/tokenizer_config.json', 'w'))


def harness(a, items, dtype, batch):
    out = tempfile.mkdtemp(dir=a.work)
    env = dict(os.environ, HF_HUB_OFFLINE='1', HF_DATASETS_OFFLINE='1', HF_HOME=a.work + '/hf', TOKENIZERS_PARALLELISM='false')
    args = [a.python, '-m', 'lm_eval', '--model', 'hf', '--model_args', 'pretrained=%s,dtype=%s,tokenizer=%s/tokenizer' % (a.model, dtype, a.work),
            '--tasks', ','.join('t_' + n for n in items.names), '--include_path', items.folder, '--batch_size', batch, '--device', 'cpu',
            '--output_path', out, '--log_samples']
    seconds, peak = child(args, env, out + '.log')
    scores, picks = {}, {}
    for where, _, files in os.walk(out):
        for f in files:
            if f.startswith('results_'):
                for task, r in json.load(open(os.path.join(where, f)))['results'].items():
                    scores[task[2:]] = {k.split(',')[0]: v for k, v in r.items() if k in ('acc,none', 'acc_norm,none')}
            elif f.startswith('samples_'):
                name = f[len('samples_t_'):f.rindex('_')]
                for line in open(os.path.join(where, f), encoding='utf-8'):
                    s = json.loads(line)
                    picks[name, s['doc_id']] = [float(r[0][0] if isinstance(r[0], list) else r[0]) for r in s['resps']]
    if len(picks) != items.n:
        die('the harness logged %d of %d items, see %s.log' % (len(picks), items.n, out))
    return dict(seconds=seconds, peak=peak, scores=scores, ll=picks)


def ours(a, items):
    out = tempfile.mkdtemp(dir=a.work)
    shutil.rmtree(out)
    args = [ROOT + '/build/infeval', a.model, '--tasks', ','.join('%s=%s/%s.jsonl' % (n, items.folder, n) for n in items.names), '--items', out,
            '--quiet']
    seconds, peak = child(args, dict(os.environ, OMP_WAIT_POLICY=os.environ.get('OMP_WAIT_POLICY', 'passive')), out + '.log')
    scores, ll = {}, {}
    for where, _, files in os.walk(out):
        for f in files:
            name, lines = f.split('.')[0], [json.loads(x) for x in open(os.path.join(where, f), encoding='utf-8')][1:]
            scores[name] = {m: statistics.fmean(x['metrics'][m] for x in lines) for m in FORM[name.split('_')[0]][3]}
            ll.update({(name, x['doc']): x['ll'] for x in lines})
    if len(ll) != items.n:
        die('infeval wrote %d of %d items' % (len(ll), items.n))
    return dict(seconds=seconds, peak=peak, scores=scores, ll=ll)


def agreement(theirs, mine):
    """differences of scores, of log-likelihoods, and of the picks that follow from them"""
    pick = lambda v: max(range(len(v)), key=lambda i: v[i])
    return dict(score=max(abs(v - mine['scores'][t][m]) for t, s in theirs['scores'].items() for m, v in s.items()),
                ll=max(abs(x - y) for k, v in theirs['ll'].items() for x, y in zip(v, mine['ll'][k])),
                picks=sum(pick(v) != pick(mine['ll'][k]) for k, v in theirs['ll'].items()), items=len(mine['ll']))


def rate(run, start, n, tasks):
    return dict(seconds=run['seconds'], peak=run['peak'], rate=n / run['seconds'], start=start['seconds'],
                warm=(n - tasks) / max(run['seconds'] - start['seconds'], 1e-9))


def compare(a, dtype, pilot, one, full):
    tried = {}
    for batch in a.batch.split(','):
        tried[batch] = harness(a, pilot, dtype, batch)['seconds']
        print('%s: batch %s: %d items in %.1f s' % (dtype, batch, pilot.n, tried[batch]), flush=True)
    best = min(tried, key=tried.get)
    starts = [harness(a, one, dtype, best), ours(a, one)]
    rounds = []
    for _ in range(a.rounds):
        theirs, mine = harness(a, full, dtype, best), ours(a, full)
        tasks = len(full.names)
        r = dict(theirs=rate(theirs, starts[0], full.n, tasks), ours=rate(mine, starts[1], full.n, tasks), agreement=agreement(theirs, mine))
        r.update(ratio=r['ours']['rate'] / r['theirs']['rate'], ratio_warm=r['ours']['warm'] / r['theirs']['warm'],
                 memory=r['ours']['peak'] / r['theirs']['peak'])
        rounds.append(r)
        for who in ('theirs', 'ours'):
            v = r[who]
            print('%s: %-7s %d items in %.1f s: %.2f items/s; start-up %.1f s, without it %.2f items/s; peak %.0f MB' % (
                dtype, 'harness' if who == 'theirs' else 'infeval', full.n, v['seconds'], v['rate'], v['start'], v['warm'], v['peak'] / 1e6))
        g = r['agreement']
        print('%s: infeval / harness: %.2f x items/s (%.2f x without start-up), memory %.2f; scores differ by at most %.4f, '
              'log-likelihoods by %.2g, picks of %d of %d items' % (dtype, r['ratio'], r['ratio_warm'], r['memory'], g['score'], g['ll'], g['picks'],
                                                                  g['items']), flush=True)
    return dict(dtype=dtype, tried=tried, batch=best, rounds=rounds, items=full.n, tasks=len(full.names))


def main():
    p = argparse.ArgumentParser(usage=__doc__.split('usage:')[1], description=None)
    p.add_argument('--model', default=ROOT + '/build/models/smollm2-135m')
    p.add_argument('--hellaswag', type=int, default=400)
    p.add_argument('--blimp', type=int, default=100)
    p.add_argument('--batch', default='1,8,32,auto')
    p.add_argument('--dtype', default='float32,bfloat16')
    p.add_argument('--pilot', type=int, default=10)
    p.add_argument('--rounds', type=int, default=2)
    p.add_argument('--json')
    a = p.parse_args()
    a.python = os.environ.get('PYTHON')
    if not a.python or subprocess.run([a.python, '-c', 'import lm_eval, torch, transformers'], stderr=subprocess.DEVNULL).returncode != 0:
        die('PYTHON must name an interpreter that imports lm_eval, torch and transformers')
    source = {'hellaswag': rows(SHARED + '/data/hellaswag/hellaswag_val_first1000.jsonl')}
    source.update({'blimp_' + n: rows('%s/data/blimp/%s.jsonl' % (SHARED, n)) for n in BLIMP})
    a.model = os.path.abspath(a.model)
    with tempfile.TemporaryDirectory() as a.work:
        tokenizer_folder(a.model, a.work + '/tokenizer')
        full = Items(a.work + '/full', dict(hellaswag=a.hellaswag, blimp=a.blimp), source)
        pilot = Items(a.work + '/pilot', dict(hellaswag=max(1, a.hellaswag // a.pilot), blimp=max(1, a.blimp // a.pilot)), source)
        one = Items(a.work + '/one', dict(hellaswag=1, blimp=1), source)
        figures = [compare(a, dtype, pilot, one, full) for dtype in a.dtype.split(',')]
    version = 'import lm_eval, torch, transformers; print("lm-eval %s, transformers %s, torch %s" % (lm_eval.__version__, '\
              'transformers.__version__, torch.__version__))'
    made_by = subprocess.run([a.python, '-c', version], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout.strip()
    if a.json:
        json.dump(dict(versions=made_by, hellaswag=a.hellaswag, blimp=a.blimp, rows=figures), open(a.json, 'w'), indent=1)


main()
