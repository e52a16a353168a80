"""What the sections of results.py share: running the tools, keeping and loading figures."""
import json, os, subprocess, sys, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
B = os.path.join(ROOT, 'build')
SHARED = os.environ.get('INFQ_SHARED', os.path.join(ROOT, '..', 'shared'))


def run(args, ok=(0,)):
    t = time.time()
    p = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if p.returncode not in ok:
        sys.exit('results: %s: exit %d: %s' % (' '.join(args), p.returncode, p.stderr[-400:]))
    return p.stdout, time.time() - t, p.returncode


def tool(name, *args, ok=(0,)):
    return run([os.path.join(B, name)] + list(args), ok)


def keep(section, data):
    os.makedirs(B + '/results', exist_ok=True)
    data['at'] = time.strftime('%Y-%m-%d %H:%M')
    data['commit'] = subprocess.run(['git', 'rev-parse', '--short', 'HEAD'], cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout.strip()
    json.dump(data, open('%s/results/%s.json' % (B, section), 'w'), indent=1)


def load(section):
    p = '%s/results/%s.json' % (B, section)
    return json.load(open(p)) if os.path.exists(p) else None


def made(d):
    return 'Commit %s, %s.' % (d['commit'], d['at'])
