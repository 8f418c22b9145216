# word-level toy language with agreement: number, gender of the noun decides article, verb form, colour, and the echo at the end
import numpy as np

NOUNS = {"m": ["dog", "king", "boat", "tree"], "f": ["cat", "queen", "car", "rose"]}
VERBS = {"dog": "chase", "king": "rule", "boat": "carry", "tree": "shade", "cat": "watch", "queen": "command", "car": "pass", "rose": "please"}
ADJ = {"m": ["old", "grey", "tall"], "f": ["young", "white", "fast"]}
CODA = {"m": ["today", "here"], "f": ["tonight", "there"]}
ART = {("m", 0): "lo", ("m", 1): "los", ("f", 0): "la", ("f", 1): "las"}


def _noun_phrase(rng, g=None):
    g = g or rng.choice(["m", "f"])
    n = int(rng.random() < 0.4)
    noun = rng.choice(NOUNS[g], p=[0.55, 0.25, 0.15, 0.05])
    out = [ART[g, n]]
    if rng.random() < 0.5:
        out.append(rng.choice(ADJ[g], p=[0.7, 0.2, 0.1]))
    out.append(noun + ("_s" if n else ""))
    return out, g, n, noun


def sentence(rng):
    a, g, n, noun = _noun_phrase(rng)
    b, _, _, _ = _noun_phrase(rng, "f" if g == "m" else "m")
    s = a + [VERBS[noun] + ("" if n else "_t")] + b
    if rng.random() < 0.6:
        s.append(rng.choice(CODA[g], p=[0.8, 0.2]))
    return [str(w) for w in s] + ["!" if n else "."]


VOCAB = ["<pad>", "<bos>"] + sorted({".", "!"} | set(ART.values()) | {x for v in ADJ.values() for x in v} | {x for v in CODA.values() for x in v}
    | {x + e for v in NOUNS.values() for x in v for e in ("", "_s")} | {x + e for x in VERBS.values() for e in ("", "_t")}) + ["<mask>", "<sep>"]
ID = {w: i for i, w in enumerate(VOCAB)}


def docs(n, seed):
    rng = np.random.default_rng(seed)
    return [[ID[w] for w in sentence(rng)] for _ in range(n)]


def token_stream(n, seed):
    rng, out = np.random.default_rng(seed), []
    while len(out) < n:
        out += [ID[w] for w in sentence(rng)]
    return np.array(out[:n], dtype=np.int64)
