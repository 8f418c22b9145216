"""A made-up language: a small lexicon of pronounceable words, and a sparse grammar of which word follows which."""
import random

import torch

ALPHABET = " .abdegiklmnoprstuv"
STOI = {c: i for i, c in enumerate(ALPHABET)}
VOCAB = len(ALPHABET)


class Language:
    def __init__(self, seed=0, n_words=24, branch=3):
        rng = random.Random(seed)
        words = set()
        while len(words) < n_words:
            words.add("".join(rng.choice("bdgklmnprstv") + rng.choice("aeiou") for _ in range(rng.choice([1, 2, 2, 3]))))
        self.words = sorted(words)
        self.follow = {w: rng.sample(self.words, branch) for w in self.words}

    def sentence(self, rng, lo=3, hi=8):
        w = rng.choice(self.words)
        out = [w]
        for _ in range(rng.randint(lo, hi) - 1):
            w = rng.choices(self.follow[w], weights=[6, 3, 1])[0]
            out.append(w)
        return " ".join(out) + "."

    def text(self, n_chars, seed):
        rng = random.Random(seed)
        parts, size = [], 0
        while size < n_chars:
            s = self.sentence(rng) + " "
            parts.append(s)
            size += len(s)
        return "".join(parts)[:n_chars]


def encode(s):
    return torch.tensor([STOI[c] for c in s])


def stream(n_chars, seed, language_seed=0):
    return encode(Language(language_seed).text(n_chars, seed))


def sentences(n, seed, language_seed=0, lo=3, hi=8):
    lang, rng = Language(language_seed), random.Random(seed)
    return [encode(lang.sentence(rng, lo, hi)) for _ in range(n)]
