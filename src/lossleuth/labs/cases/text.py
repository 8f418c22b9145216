"""What the founding programs read: a tale in 34 characters, and sentences of made-up words.

Both are the same everywhere and always: nothing is downloaded, nothing depends on a version.
"""

from __future__ import annotations

import string
from dataclasses import dataclass

import torch
from torch import Tensor

ALPHABET = string.ascii_lowercase + "\n',-.;? "

TALE = """\
the lamp at the end of the pier had burned for sixty years before anyone asked who lit it.
old quill, the harbour clerk, said it was the baker; the baker said it was the priest, and
the priest, who was vexed at being woken, said it was nobody at all. so the children kept
watch. they sat behind the nets with bread and a jug of milk, and they counted the waves
until the youngest fell asleep. near midnight a small boat came in without a sail, without
oars, and as far as they could see without a crew. it touched the steps, waited as long as
a man might wait to tie a knot, and went out again. and the lamp was lit. who was it? said
the eldest. did you see a hand? no one had seen a hand. in the morning they told the clerk,
and the clerk wrote it in his book, between a cargo of zinc and a quarrel over eels; lamp
lit at twelve, by a boat. he thought for a while, then he added a line in smaller letters.
it isn't the strangest thing we owe money for. the years went by; the nets were mended, the
bread was eaten, and the youngest of the children grew up to be harbour clerk in her turn.
she kept the book dry and the ink fresh. each winter she put a just sum aside, half a crown
for oil, and left it on the last step under a flat grey stone. each spring it was gone, and
in its place lay a fish, still wet, with its head to the north-west. she never learned more
than that. but she noticed, as clerks do, that the light was never late, not by a minute.
"""
# Short enough to be learnt by heart in a few hundred steps.
SAMPLE = TALE[:240]


def encode(text: str) -> Tensor:
    """The number of each character in the alphabet.

    >>> encode("abc ").tolist()
    [0, 1, 2, 33]
    """
    return torch.tensor([ALPHABET.index(character) for character in text])


def decode(tokens: Tensor) -> str:
    """The characters of these numbers.

    >>> decode(encode("a lamp"))
    'a lamp'
    """
    return "".join(ALPHABET[int(token)] for token in tokens)


@dataclass(frozen=True)
class Language:
    """Made-up words, each of which says how likely every other is to follow it.

    The scores of the next word are `meaning[word] @ calls.T`: a network that knows both tables
    knows the language.
    """

    meaning_VC: Tensor
    calls_VC: Tensor

    @classmethod
    def made(cls, words: int, width: int, seed: int = 0) -> Language:
        """A language of so many words; some are frequent, as in any language."""
        generator = torch.Generator().manual_seed(seed)
        meaning_VC = torch.randn(words, width, generator=generator)
        calls_VC = torch.randn(words, width, generator=generator)
        meaning_VC[:, 0] = 1.0
        calls_VC[:, 0] = 4.0 - torch.arange(1, words + 1).log()
        return cls(meaning_VC, calls_VC)

    def sentences(self, number: int, length: int, seed: int = 0) -> Tensor:
        """So many sentences of equal length, one row each."""
        generator = torch.Generator().manual_seed(seed)
        word_N = torch.randint(0, len(self.meaning_VC), (number,), generator=generator)
        said = []
        for _ in range(length):
            said.append(word_N)
            chances_NV = (self.meaning_VC[word_N] @ self.calls_VC.T).softmax(-1)
            word_N = torch.multinomial(chances_NV, 1, generator=generator)[:, 0]
        return torch.stack(said, dim=1)
