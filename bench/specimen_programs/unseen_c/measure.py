"""python measure.py script.py [--sub 'regex=>text' ...] [--seed-note]  : run it, then measure the held-out loss of the task on its model"""
import json, os, re, resource, sys, time, types, contextlib, io
import torch, torch.nn.functional as F
import talk

args = sys.argv[1:]
script = args.pop(0)
host = os.path.basename(script).split("_")[0]
src = open(script).read()
while args:
    a = args.pop(0)
    if a == "--sub":
        o, n = args.pop(0).split("=>", 1)
        src, k = re.subn(o, n, src)
        assert k, f"no match {o}"
verbose = os.environ.get("V")
sys.argv = [script]
g = {"__name__": "__main__", "__file__": os.path.abspath(script)}
main_mod = types.ModuleType("__main__"); main_mod.__dict__.update(g); sys.modules["__main__"] = main_mod
g = main_mod.__dict__
buf = io.StringIO()
c0 = time.process_time(); w0 = time.time()
with contextlib.redirect_stdout(sys.stdout if verbose else buf):
    exec(compile(src, script, "exec"), g)
cpu = time.process_time()
wall = time.time() - w0
last = [l for l in buf.getvalue().splitlines() if l.strip()][-1:] 
torch.manual_seed(99)
model = g["model"]
if hasattr(model, "eval"): model.eval()


def char_windows(n, length, seed=777):
    d = torch.tensor([talk.ALPHABET.index(c) for c in talk.story(1500, seed=seed)])
    gen = torch.Generator().manual_seed(3)
    st = torch.randint(len(d) - length - 1, (n,), generator=gen)
    return d[st[:, None] + torch.arange(length + 1)]


def causal_loss(fn, w, T):
    """every position t is predicted from a call which saw x[:, :t+1] only (what follows is not there)"""
    tot = 0.0
    per = []
    for t in range(T):
        lg = fn(w[:, : t + 1])
        per.append(F.cross_entropy(lg, w[:, t + 1]).item())
    return sum(per) / T, per


def distill():
    T = 48
    return causal_loss(lambda x: model(x)[:, -1], char_windows(256, T), T)[0]


def unigram_char():
    d = torch.tensor([talk.ALPHABET.index(c) for c in talk.story(1500, seed=777)])
    p = torch.bincount(d).float(); p = p[p > 0] / p.sum()
    return -(p * p.log()).sum().item()


def hfdistill():
    import make_data
    stoi = g["stoi"]
    w = torch.tensor([[stoi[x] for x in p] for p in make_data.texts(2500, 4242)])[:400]
    with torch.no_grad():
        return causal_loss(lambda x: model(input_ids=x).logits[:, -1], w, 40)[0]

def topic():
    from batching import pad_rows
    data = talk.notes(1500, 9001)
    rows = [g["encode"](w) for w, _ in data]
    y = torch.tensor([l for _, l in data])
    if "predict" in g:
        return F.cross_entropy(g["predict"](rows), y).item()
    # one batch of one row at a time would be slow: rows of equal length together
    tot = 0
    for n in sorted({len(r) for r in rows}):
        k = [i for i, r in enumerate(rows) if len(r) == n]
        tot += F.cross_entropy(model(pad_rows([rows[i] for i in k]), [n] * len(k)), y[k], reduction="sum").item()
    return tot / len(rows)


def tagger():
    tot = cnt = 0
    voc = g["trainer"].vocab
    for words, tags in talk.tagged(600, 9002):
        pre = ["<s>"] if "<s>" in voc else []
        ids = torch.tensor([[voc.get(w, 1) for w in pre + words]])
        lg = model(ids)[0, len(pre):]
        tot += F.cross_entropy(lg, torch.tensor([talk.TAGS.index(t) for t in tags]), reduction="sum").item()
        cnt += len(tags)
    return tot / cnt

def xlmem():
    c = model.c
    S = c.segment
    w = char_windows(96, S * 9, 778)
    model.reset(96)
    tot = n = 0
    for s in range(8):
        seg = w[:, s * S : s * S + S + 1]
        keep, seen = model.memory.clone(), model.seen
        if s >= 4:
            for t in range(S):
                model.memory.copy_(keep); model.seen = seen
                lg = model(seg[:, : t + 1])[:, -1]
                tot += F.cross_entropy(lg, seg[:, t + 1]).item(); n += 1
            model.memory.copy_(keep); model.seen = seen
        model(seg[:, :-1])
    return tot / n


def patches():
    T = 48
    d = torch.tensor(list(talk.story(1500, seed=777).encode()))
    gen = torch.Generator().manual_seed(3)
    st = torch.randint(len(d) - T - 1, (256,), generator=gen)
    w = d[st[:, None] + torch.arange(T)]
    tot = 0
    for i in range(T):
        x = w.clone(); x[:, i:] = 32
        tot += F.cross_entropy(model(x)[:, i], w[:, i]).item()
    return tot / T

def ahead():
    T = 48
    w = char_windows(256, T + 2)
    tot = 0
    outs = model(w[:, :T])            # recurrent and causal by construction
    return sum(F.cross_entropy(o.flatten(0, 1), w[:, k + 1 : k + 1 + T].flatten()).item() for k, o in enumerate(outs)) / len(outs)


def tbe():
    T = 32
    w = char_windows(256, T) + 1      # CHARS = newline + ALPHABET
    tot = 0
    for part in w.split(32):
        for t in range(T):
            x = part[:, :-1].clone()
            x[:, t + 1 :] = torch.randint(1, 30, x[:, t + 1 :].shape)
            tot += F.cross_entropy(model(x.T)[t], part[:, t + 1]).item()
    return tot / T / (len(w) // 32)


def einsum():
    w = char_windows(256, 40)
    return causal_loss(lambda x: model(x)[:, -1], w, 40)[0]





def distillcache():
    T = 40
    return causal_loss(lambda x: model(x)[:, -1], char_windows(256, T), T)[0]


def prefix():
    w = char_windows(256, 48)
    tot = 0
    for t in range(15, 48):
        tot += F.cross_entropy(model(w[:, : t + 1].T)[-1], w[:, t + 1]).item()
    return tot / 33


def lastpos():
    w = char_windows(8000, 16)
    return F.cross_entropy(model(w[:, :16]), w[:, 16]).item()


def bags():
    return topic()

def ring():
    S = 16
    w = char_windows(96, S * 11, 778)
    model.clear(96)
    tot = n = 0
    snap = lambda: [(a.keys.clone(), a.values.clone(), a.written.clone(), a.now) for a in model.att]
    def put(z):
        for a, (k, v, wr, now) in zip(model.att, z):
            a.keys, a.values, a.written, a.now = k.clone(), v.clone(), wr.clone(), now
    for s in range(10):
        seg = w[:, s * S : s * S + S + 1]
        keep = snap()
        if s >= 5:
            for t in range(4, S):
                put(keep)
                tot += F.cross_entropy(model(seg[:, : t + 1])[:, -1], seg[:, t + 1]).item(); n += 1
            put(keep)
        model(seg[:, :-1])
    return tot / n

with torch.no_grad():
    loss = globals()[host]()
print(json.dumps(dict(script=script, heldout=round(loss, 4), cpu=round(cpu, 1), wall=round(wall, 1), last=last[0][:90] if last else "",
      params=sum(p.numel() for p in (model.parameters() if hasattr(model, "parameters") else g["P"].values() if "P" in g else [])))))
