"""python measure.py program.py [lr multiplier]   -> true held-out loss, cpu seconds of the bare run; appends to measured.tsv"""
import sys, os, time, types, re, math, io, contextlib
path = sys.argv[1]; mul = float(sys.argv[2]) if len(sys.argv) > 2 else 1.0
os.chdir(os.path.dirname(os.path.abspath(__file__))); sys.path.insert(0, os.getcwd())
src = open(path).read()
# the one text that carries the learning rate in each program
LR = {
 'charlstm': r'^LR = ([\d.e-]+)', 'burnin': r'^RATE = ([\d.e-]+)', 'rotary': r'"--lr", type=float, default=([\d.e-]+)', 'prefix': r'lr: float = ([\d.e-]+)',
 'wavenet': r'lr=([\d.e-]+)', 'maskconv': r'lr=([\d.e-]+)', 'sorter': r'lr=([\d.e-]+)', 'recall': r'lr=([\d.e-]+)', 'trainer': r'learning_rate=([\d.e-]+)',
 'ownsgd': r'^ETA = ([\d.e-]+)', 'flat': r'^eta = ([\d.e-]+)', 'multi': r'lr: float = ([\d.e-]+)', 'moe': r'factor: float = ([\d.e-]+)',
 'lion': r'lr=([\d.e-]+)', 'twostage': r'LM_LR = ([\d.e-]+)'}
host = re.match(r'[a-z]+', os.path.basename(path)).group(0)
if mul != 1:
    src, n = re.subn(LR[host], lambda m: m.group(0).replace(m.group(1), repr(float(m.group(1)) * mul)), src, flags=re.M)
    assert n == 1, n
mod = types.ModuleType('prog'); mod.__file__ = os.path.abspath(path); sys.modules['prog'] = mod
sys.argv = [path]
buf = io.StringIO()
t0 = time.time()
with contextlib.redirect_stdout(buf):
    exec(compile(src, path, 'exec'), mod.__dict__)
    if 'main' in mod.__dict__:
        mod.model = mod.main()
cpu = time.process_time(); wall = time.time() - t0
lines = [l for l in buf.getvalue().splitlines() if l.strip()]
print(lines[0] if lines else ''); print(lines[len(lines)//2]); print('\n'.join(lines[-2:]))

import torch, torch.nn.functional as F
import talk
g = mod.__dict__; model = g['model']; model.eval() if hasattr(model, 'eval') else None

@torch.no_grad()
def last_only(f, X, Y, places):
    """mean loss when the model sees only x[:t+1] at place t; f(x)-> (B,T,V) logits. Kind to no leak."""
    tot = n = 0
    for t in places:
        lo = f(X[:, :t + 1])[:, -1].float()
        tot += F.cross_entropy(lo, Y[:, t], ignore_index=-100, reduction='sum').item(); n += (Y[:, t] != -100).sum().item()
    return tot / n

def chars_held(stoi, n=40_000):
    s = talk.story(n, seed=991); return torch.tensor([stoi[c] for c in s])

def words_held(stoi, n=60_000):
    s = talk.story(n, seed=992).split()[:-1]; return torch.tensor([stoi[c] for c in s])

@torch.no_grad()
def ev_charlstm():
    ids = chars_held(g['stoi']); per = (len(ids) - 1) // 32
    x = ids[:per * 32].view(32, per); y = ids[1:per * 32 + 1].view(32, per)
    lo, _ = model(x, None)
    return F.cross_entropy(lo.flatten(0, 1), y.flatten()).item()
@torch.no_grad()
def ev_burnin():
    ids = chars_held(g['stoi']); per = (len(ids) - 1) // 64
    x = ids[:per * 64].view(64, per); y = ids[1:per * 64 + 1].view(64, per)
    st = model.blank(64); tot = 0
    for t in range(per):
        lo, st = model.step(x[:, t], st)
        if t >= 8: tot += F.cross_entropy(lo, y[:, t]).item()
    return tot / (per - 8)
def windows(ids, T, n=64, seed=5):
    gen = torch.Generator().manual_seed(seed); i = torch.randint(len(ids) - T - 1, (n,), generator=gen)
    return torch.stack([ids[k:k + T] for k in i]), torch.stack([ids[k + 1:k + T + 1] for k in i])
def ev_rotary():
    ids = words_held({w: i for i, w in enumerate(talk.words())}); X, Y = windows(ids, 48, 200)
    return last_only(lambda x: model(x), X, Y, range(0, 48))
def ev_prefix():
    ids = words_held({w: i for i, w in enumerate(talk.words())}); X, Y = windows(ids, 48, 200)
    pre = g['PREFIX'] if 'PREFIX' in g else g['cfg'].prefix
    return last_only(lambda x: model(x), X, Y, range(pre - 1, 48))
def ev_wavenet():
    ids = chars_held(g['stoi']); X, Y = windows(ids, 96, 200)
    return last_only(lambda x: model(x).transpose(1, 2), X, Y, range(0, 96, 2))
ev_maskconv = ev_wavenet
def ev_sorter():
    return g_measure_sorter()
def g_measure_sorter():
    import random
    src, ti, to = g['make_pairs'](1500, seed=4321)
    # right labels by own rule
    a, i, o = (torch.as_tensor(v) for v in g['collate'](src, ti, to))
    T = i.shape[1]
    Y = o.clone(); Y[Y == 0] = -100
    return last_only(lambda x: model(a, x), i, Y, range(T))
def ev_recall():
    x, y = g['draw'](3000, torch.Generator().manual_seed(987))
    with torch.no_grad(): lo = model(x)
    return F.cross_entropy(lo, y).item()
def ev_trainer():
    tok = g['word_id']; rows = talk.sentences(600, seed=993)
    ids = [[g['BOS']] + [tok[w] for w in r.split()] + [g['EOS']] for r in rows]
    T = max(map(len, ids)); X = torch.full((600, T), g['PAD']); Y = torch.full((600, T), -100)
    for k, r in enumerate(ids):
        X[k, :len(r)] = torch.tensor(r); Y[k, :len(r) - 1] = torch.tensor(r[1:])
    with torch.no_grad():
        lo = model(input_ids=X, attention_mask=(X != g['PAD']).long()).logits
    return F.cross_entropy(lo.flatten(0, 1).float(), Y.flatten(), ignore_index=-100).item()
def ev_ownsgd():
    st = g['stoi']; rows = talk.sentences(600, seed=994)
    ids = [[st['<s>']] + [st[w] for w in r.split()] + [st['</s>']] for r in rows]
    T = max(map(len, ids)); X = torch.zeros(600, T - 1, dtype=torch.long); Y = torch.full((600, T - 1), -100)
    for k, r in enumerate(ids):
        X[k, :len(r) - 1] = torch.tensor(r[:-1]); Y[k, :len(r) - 1] = torch.tensor(r[1:])
    with torch.no_grad(): lo = model(X)
    return F.cross_entropy(lo.flatten(0, 1), Y.flatten(), ignore_index=-100).item()
def ev_flat():
    ids = chars_held(g['index']); X, Y = windows(ids, 40, 300)
    with torch.no_grad(): lo = model(X)
    return F.cross_entropy(lo.flatten(0, 1), Y.flatten()).item()
def ev_multi():
    rows = talk.paragraphs(640, seed=995); X, Y, C = g['encode'](rows)
    X, Y, C = (torch.as_tensor(v) for v in (X, Y, C)); tot = c = 0; b = 32
    with torch.no_grad():
        for k in range(0, len(X), b):
            lo, cl = model(X[k:k + b])
            if os.environ.get('PROBS'): lo = lo.log()
            tot += F.cross_entropy(lo.flatten(0, 1), Y[k:k + b].flatten(), ignore_index=-100).item(); c += F.cross_entropy(cl, C[k:k + b]).item()
    n = len(X) // b
    print('label loss', c / n); return tot / n
def ev_moe():
    ids = chars_held(g['stoi']); X, Y = windows(ids, 48, 400)
    with torch.no_grad():
        lo = model(X); lo = lo[0] if isinstance(lo, tuple) else lo
    return F.cross_entropy(lo.flatten(0, 1), Y.flatten()).item()
ev_lion = ev_moe
def ev_twostage():
    ids = words_held(g['vocab_index']); X, Y = windows(ids, 32, 300)
    with torch.no_grad(): lo = model(X)
    if os.environ.get('PROBS'): lo = lo.log()
    return F.cross_entropy(lo.flatten(0, 1), Y.flatten()).item()
v = globals()['ev_' + host]()
print(f'== {path} x{mul:g}: heldout {v:.4f}  cpu {cpu:.1f}s wall {wall:.1f}s')
open('measured.tsv', 'a').write(f'{path}\t{mul:g}\t{v:.4f}\t{cpu:.1f}\n')
