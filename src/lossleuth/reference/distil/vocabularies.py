"""Whether two vocabularies can be compared, and how: by token text, by rank, or not at all.

Tokens of different tokenizers are never aligned by interpolation: a token is another's equal when
its text is, and a position when the text before it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from lossleuth.reference.distil.host_tokenizer import HostTokenizer
from lossleuth.reference.train.tokenizer import (
    BpeTokenizer,
    CharTokenizer,
    Tokenizer,
    WordTokenizer,
)
from lossleuth.types.errors import BadInput

COMPARED_DOCUMENTS = 20
COMPARED_CHARACTERS = 20_000


@dataclass(frozen=True)
class Match:
    """How the teacher's tokens answer to the student's.

    `ids`: the teacher's token for each of the student's; None where they are the same, or where
    only sorted probabilities can be compared.
    """

    kind: str
    sentence: str
    ids: Tensor | None = None


def match_vocabularies(
    student: Tokenizer, teacher: Tokenizer | None, documents: Sequence[str], wanted: str = "auto"
) -> Match:
    """Compare vocabularies by token text, and the tokenizers on some of the data.

    >>> match = match_vocabularies(CharTokenizer("ab"), CharTokenizer("cba"), ["abba"])
    >>> match.kind, match.ids.tolist()
    ('exact', [0, 1, 4, 3])
    >>> match_vocabularies(CharTokenizer("ab"), WordTokenizer(["ab"]), ["abba"]).kind
    'sorted'
    """
    if teacher is None:
        if wanted == "sorted":
            raise BadInput(
                "the teacher's tokenizer, to find the same places in a text",
                "a module without one",
                "give it an attribute `tokenizer`, or use --vocabulary auto",
            )
        return Match("exact", "vocabulary: the teacher names no tokens; its ids are taken as ours")
    reason = None
    if wanted != "sorted":
        found, reason = _by_text(student, teacher, documents)
        if found is not None:
            return found
        if wanted == "exact":
            raise BadInput(
                "vocabularies that agree token by token",
                f"{reason}",
                "use the teacher's tokenizer, or --vocabulary sorted",
            )
    why = f" ({reason})" if reason else ""
    return Match(
        "sorted",
        f"vocabulary: {student.size} and {teacher.size} tokens are compared by sorted "
        f"probabilities{why}",
    )


def _by_text(
    student: Tokenizer, teacher: Tokenizer, documents: Sequence[str]
) -> tuple[Match | None, str]:
    """The map from the student's tokens to the teacher's, or why there is none."""
    ours, theirs = token_texts(student), token_texts(teacher)
    places = {text: i for i, text in enumerate(theirs)}
    if len(places) < len(theirs):
        return None, "the teacher has tokens with the same text"
    lacking = [text for text in ours if text not in places]
    if lacking:
        return None, f"the teacher lacks {len(lacking)} of {len(ours)} tokens, {lacking[0]!r} first"
    ids = np.array([places[text] for text in ours])
    for document in documents[:COMPARED_DOCUMENTS]:
        text = document[:COMPARED_CHARACTERS]
        mine, other = ids[student.encode(text)], teacher.encode(text)
        if student.unknown is not None:
            # What only the student does not know is no difference in how text is split.
            known = mine != ids[student.unknown] if len(mine) == len(other) else slice(None)
            mine, other = mine[known], other[known]
        if not np.array_equal(mine, other):
            return None, "the same text is split into other tokens"
    if len(ours) == len(theirs) and np.array_equal(ids, np.arange(len(ours))):
        return Match("exact", f"vocabulary: the same {len(ours)} tokens"), ""
    sentence = (
        f"vocabulary: {len(ours)} tokens found by their text among the teacher's {len(theirs)}"
    )
    return Match("exact", sentence, torch.from_numpy(ids)), ""


def token_texts(tokenizer: Tokenizer) -> list[str]:
    """The text of every token by its id, as the tokenizer itself spells it.

    >>> token_texts(CharTokenizer("ab"))
    ['<|endoftext|>', '<|unknown|>', 'a', 'b']
    """
    if isinstance(tokenizer, CharTokenizer | WordTokenizer | BpeTokenizer | HostTokenizer):
        return list(tokenizer.pieces)
    raise BadInput(
        "a tokenizer that names its tokens",
        f"{type(tokenizer).__name__}",
        "use one of lossleuth's or of Hugging Face",
    )
