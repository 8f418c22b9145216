"""writes stories2.bin: two rows of uint16, what goes in and what should come out"""
import numpy as np
from talk import story, words

index = {w: i for i, w in enumerate(words())}
flow = ["."] + story(240_000, seed=21).split()[:-1]      # begin on a boundary
flow = np.array([index[w] for w in flow], dtype=np.uint16)
x, y = flow[:-1], flow[1:]
x = x[1:]                                                # the boundary is no word of the story
size = min(len(x), len(y))
np.stack([x[:size], y[:size]]).tofile("stories2.bin")
print(size, len(index), "words")
