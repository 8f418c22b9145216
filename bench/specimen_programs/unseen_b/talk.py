"""Small made-up English for the experiments in this folder."""
import random

NAMES = "anna bert carla david emma frank greta henry irene jonas karin louis".split()
CITIES = "rome paris oslo cairo lima delhi kyoto quito".split()
PETS = "cat dog horse parrot rabbit goat turtle".split()
COLOURS = "red blue green yellow black white".split()
ADJ = "small old quiet happy heavy bright lazy clever".split()
NOUNS = "river garden table window bridge market school mountain kitchen forest".split()
VERBS = [("walks", "walked"), ("runs", "ran"), ("looks", "looked"), ("comes", "came"), ("points", "pointed"), ("sings", "sang")]
THINGS = "apple bottle letter basket hammer blanket candle mirror".split()
PREP = "near behind under beside".split()
SHE = {"anna", "carla", "emma", "greta", "irene", "karin"}


def sentence(rng):
    n = rng.choice(NAMES)
    pro = "she" if n in SHE else "he"
    pos = "her" if n in SHE else "his"
    k = rng.random()
    past = rng.random() < 0.5
    v = rng.choice(VERBS)[1 if past else 0]
    if k < 0.35:
        s = f"{n} {v} {rng.choice(PREP)} the {rng.choice(ADJ)} {rng.choice(NOUNS)} and {pro} {'found' if past else 'finds'} {pos} {rng.choice(THINGS)} ."
    elif k < 0.6:
        p = rng.choice(PETS)
        s = f"the {rng.choice(COLOURS)} {p} of {n} {v} {'yesterday' if past else 'today'} , so {pro} {'was' if past else 'is'} {rng.choice(ADJ)} with the {p} ."
    elif k < 0.8:
        c = rng.choice(CITIES)
        s = f"in {c} {pro} {v} {rng.choice(PREP)} a {rng.choice(NOUNS)} , said {n} from {c} ."
    else:
        t = rng.choice(THINGS)
        s = f"{n} {'gave' if past else 'gives'} the {rng.choice(COLOURS)} {t} to {rng.choice(NAMES)} , and the {t} {'was' if past else 'is'} {rng.choice(ADJ)} ."
    return s


def sentences(n, seed=0):
    rng = random.Random(seed)
    return [sentence(rng) for _ in range(n)]


def text(n, seed=0):
    return "\n".join(sentences(n, seed)) + "\n"


def words(n, seed=0):
    out = []
    for s in sentences(n, seed):
        out += s.split() + ["<eos>"]
    return out


def vocab():
    w = ["<pad>", "<eos>"] + sorted(set(words(4000, seed=99)))
    return list(dict.fromkeys(w))
