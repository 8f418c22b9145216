"""writes stories.bin: two rows of uint16, what goes in and what should come out"""
import numpy as np
from talk import story, words

index = {w: i for i, w in enumerate(words())}
ids = np.array([index[w] for w in story(240_000, seed=21).split()[:-1]], dtype=np.uint16)
pair = np.stack([ids[:-1], ids[1:]])
pair.tofile("stories.bin")
print(pair.shape, len(index), "words")
