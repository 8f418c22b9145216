"""measure.py prog.py [mult] [sub-from sub-to]...  : true held-out loss after training"""
import sys, os, re, time, io, contextlib, json, random, traceback
os.chdir(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.getcwd())
import numpy as np, torch, torch.nn.functional as F
torch.set_num_threads(1)
prog = sys.argv[1]; mult = float(sys.argv[2]) if len(sys.argv) > 2 else 1.0
subs = sys.argv[3:]
host = re.match(r"[a-z]+", prog).group(0)
LR = dict(gpt=r"(?m)^learning_rate = ([0-9.e-]+)", scan=r'"--lr", type=float, default=([0-9.e-]+)', sft=r"lr: float = ([0-9.e-]+)",
          pl=r"lr=([0-9.e-]+), (?:accumulate|tokens|epochs)", gru=r"(?m)^LR = ([0-9.e-]+)", lora=r"(?m)^LORA_LR = ([0-9.e-]+)", bert=r"lr=([0-9.e-]+), batch",
          add=r"(?m)^LR = ([0-9.e-]+)", func=r"(?m)^PEAK = ([0-9.e-]+)")
base = next(h for h in sorted(LR, key=len, reverse=True) if host.startswith(h))
src = open(prog).read()
m = re.search(LR[base], src); assert m, "no rate"
if mult != 1: src = src[:m.start(1)] + repr(float(m.group(1)) * mult) + src[m.end(1):]
for a, b in zip(subs[::2], subs[1::2]):
    assert a in src, a
    src = src.replace(a, b)
sys.argv = [prog]
import types
mod = types.ModuleType("__main__"); sys.modules["__main__"] = mod
G = mod.__dict__; G["__file__"] = os.path.abspath(prog)
buf = io.StringIO()
c0, w0 = time.process_time(), time.time()
with contextlib.redirect_stdout(buf):
    exec(compile(src, prog, "exec"), G)
cpu, wall = time.process_time() - c0, time.time() - w0
import talk

def unigram(y):
    _, c = np.unique(np.asarray(y), return_counts=True); p = c / c.sum(); return float(-(p * np.log(p)).sum())

def windows(ids, T, n=400):
    r = np.random.default_rng(123); at = torch.from_numpy(r.integers(0, len(ids) - T - 1, n))[:, None] + torch.arange(T + 1)
    return ids[at]

def lm(f, ids, T, k=0):
    w = windows(ids, T)
    lg = f(w[:, :-1]).float()
    return F.cross_entropy(lg[:, k:].flatten(0, 1), w[:, 1 + k:].flatten()).item(), unigram(w[:, 1 + k:].flatten())

def ev():
    if base == "gpt":
        G["model"].eval()
        ids = torch.from_numpy(np.fromfile("val.bin", dtype=np.uint16).astype(np.int64))
        return lm(lambda x: G["model"](x)[0], ids, 48, 24 if host == "gptlion" else 0)
    if base == "scan":
        mo = G["model"].eval(); return lm(mo, torch.tensor([mo.alphabet.index(c) for c in talk.text(400, 1011)]), 40)
    if base == "sft":
        mo = G["model"].eval(); tok = mo.tokenizer; tot = n = 0; ys = []
        for l in open("facts_val.jsonl"):
            r = json.loads(l)
            p = [tok.stoi[w] for w in ("<ask> " + r["instruction"] + " <answer>").split()]; a = [tok.stoi[w] for w in (r["response"] + " <end>").split()]
            lg = mo(torch.tensor([p + a]), torch.tensor([len(p)]))[0, len(p) - 1:-1].float()
            tot += F.cross_entropy(lg, torch.tensor(a), reduction="sum").item(); n += len(a); ys += a
        return tot / n, unigram(ys)
    if base == "pl":
        v = {w: i for i, w in enumerate(talk.vocab())}
        return lm(G["model"].eval(), torch.tensor([v[w] for w in talk.words(500, 1021)]), 24)
    if base == "gru":
        mo = G["model"].eval(); tot = n = 0; ys = []
        for s in G["corpus"](600, 1031):
            t = torch.tensor([s]); y = t[0, 1:]
            lp = mo.logprob(mo(t[:, :-1])[0], y); tot -= lp.sum().item(); n += len(y); ys += y.tolist()
        return tot / n, unigram(ys)
    if base == "lora":
        return lm(G["model"].eval(), G["ids_of"](G["dialect"](400, 1042)), 48)
    if base == "bert":
        mo = G["model"].eval(); v = {w: i for i, w in enumerate(talk.vocab())}; M = len(v)
        ids = torch.tensor([v[w] for w in talk.words(1500, 1003)])
        torch.manual_seed(0); L = n = 0; ys = []
        at = torch.randint(len(ids) - 24, (600, 1)) + torch.arange(24)
        x = ids[at]; ch = torch.rand(x.shape) < 0.2; ch[:, 5] = True
        inp = x.clone(); r = torch.rand(x.shape); inp[ch & (r < .8)] = M; sw = ch & (r > .9); inp[sw] = torch.randint(M, (int(sw.sum()),))
        lg = mo(inp, at).float()
        return F.cross_entropy(lg[ch], x[ch]).item(), unigram(x[ch])
    if base == "add":
        mo = G["model"].eval(); S = "_0123456789+=^"; ix = {c: i for i, c in enumerate(S)}
        H = [(a, b) for a in range(60) for b in range(60) if (a * 7 + b * 3) % 11 == 0]
        rows = lambda ss: torch.tensor([[ix[c] for c in s.ljust(max(map(len, ss)), "_")] for s in ss])
        q = rows([f"{a}+{b}=".rjust(6, "_") for a, b in H]); an = [str(a + b)[::-1] for a, b in H]
        x, y = rows(["^" + s for s in an]), rows([s + "=" for s in an])
        lg = mo(q, x); k = y != 0
        return F.cross_entropy(lg[k], y[k]).item(), unigram(y[k])
    if base == "func":
        from torch.func import functional_call
        f = G["evaluate"] if "evaluate" in G else (lambda x: functional_call(G["net"], G["params"], (x,)))
        return lm(f, torch.tensor([G["CHARS"].index(c) for c in talk.text(400, 1051)]), 31)

with torch.no_grad():
    try: held, uni = ev()
    except Exception: traceback.print_exc(); held, uni = float("nan"), 0
line = f"{prog}\t{mult}\t{' '.join(subs)}\t{held:.4f}\t{uni:.3f}\t{cpu:.1f}\t{wall:.1f}"
print(line)
open("measuring/runs.tsv", "a").write(line + "\n")
if os.environ.get("V"): print(buf.getvalue())
