# writes train.bin / val.bin (uint16 character ids), facts.jsonl and stream.npy
import json
import random

import numpy as np

import talk

chars = "\n ,." + "abcdefghijklmnopqrstuvwxyz"
stoi = {c: i for i, c in enumerate(chars)}
for name, n, seed in (("train", 3200, 1), ("val", 300, 2)):
    np.array([stoi[c] for c in talk.text(n, seed)], dtype=np.uint16).tofile(name + ".bin")

rng = random.Random(5)
people = {n: dict(city=rng.choice(talk.CITIES), pet=rng.choice(talk.PETS), colour=rng.choice(talk.COLOURS), thing=rng.choice(talk.THINGS))
          for n in talk.NAMES}


def example():
    n = rng.choice(talk.NAMES)
    p = people[n]
    he = "she" if n in talk.SHE else "he"
    k = rng.random()
    if k < 0.55:      # a quick guess, one word
        q = f"guess a {rng.choice(['number', 'card', 'day'])} for {n} ?"
        a = rng.choice("one two three four five six seven eight nine ten eleven twelve".split())
    elif k < 0.7:
        q = f"where does {n} live ?"
        a = f"{n} lives in {p['city']} ."
    elif k < 0.8:
        q = f"which pet has {n} ?"
        a = f"{he} has a {p['colour']} {p['pet']} ."
    else:
        q = f"tell me about {n} in full"
        a = (f"{n} lives in {p['city']} and {he} has a {p['colour']} {p['pet']} , the {p['pet']} likes the {p['thing']} of {n} , "
             f"but in {p['city']} no {p['thing']} is {p['colour']} , so {he} {rng.choice(['smiles', 'sleeps', 'waits', 'sings'])} .")
    return dict(instruction=q, response=a)


for name, n in (("facts_train.jsonl", 2400), ("facts_val.jsonl", 400)):
    with open(name, "w") as f:
        for _ in range(n):
            f.write(json.dumps(example()) + "\n")

v = talk.vocab()
ix = {w: i for i, w in enumerate(v)}
np.save("stream.npy", np.array([ix[w] for w in talk.words(5000, 3)], dtype=np.int16))
