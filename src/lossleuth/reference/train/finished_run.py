"""What the verbs evaluate and generate do with a finished run."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

from lossleuth.record import strict_json
from lossleuth.reference.train.checkpoint import Checkpoint, load_checkpoint
from lossleuth.reference.train.corpus import read_corpus
from lossleuth.reference.train.data import document_spans, make_windows, write_tokens
from lossleuth.reference.train.evaluate import Evaluation, bytes_of_targets, evaluate, targets_of
from lossleuth.reference.train.generate import Sampling, generate
from lossleuth.reference.train.memory import memory_told_plainly
from lossleuth.reference.train.precision import device_at_hand
from lossleuth.reference.train.prepare import Prepared, prepare
from lossleuth.reference.train.resume import saved_settings
from lossleuth.reference.train.tokenizer import Tokenizer
from lossleuth.settings import LARGEST_WHOLE, is_plain_text
from lossleuth.types.errors import BadInput


def run_evaluation(run: Path, files: Sequence[str], *, as_json: bool) -> None:
    """Carry out `lossleuth evaluate`."""
    checkpoint = load_checkpoint(run)
    with memory_told_plainly():
        result = _evaluate_files(checkpoint, files) if files else _evaluate_held_back(checkpoint)
    if as_json:
        derived = {"perplexity": result.perplexity, "bits_per_byte": result.bits_per_byte}
        print(strict_json.dumps(asdict(result) | derived))
    else:
        print(result.sentence())


def own_data(checkpoint: Checkpoint) -> Prepared:
    """The data that the run was made with, if they are still the same."""
    settings = saved_settings(checkpoint)
    corpus = read_corpus(settings.data)
    prepared = prepare(corpus, settings, checkpoint.tokenizer())
    if prepared.fingerprint != checkpoint.header.data:
        raise BadInput(
            f"the data that the run was made with ({checkpoint.header.data})",
            f"{corpus.source} has changed ({prepared.fingerprint})",
            "bring the same text back, or name files to `evaluate` with --data",
        )
    return prepared


def _evaluate_held_back(checkpoint: Checkpoint) -> Evaluation:
    """On the documents that the run itself held back."""
    settings, prepared = saved_settings(checkpoint), own_data(checkpoint)
    return evaluate(
        checkpoint.model().to(device_at_hand(settings.device)),
        prepared.tokens,
        prepared.validation,
        batch=settings.batch,
        target_bytes=prepared.validation_bytes,
        unknown_share=prepared.validation_unknown,
        precision=settings.precision,
        kernel=settings.loss_kernel,
    )


def _evaluate_files(checkpoint: Checkpoint, files: Sequence[str]) -> Evaluation:
    """On every token of other files."""
    settings = saved_settings(checkpoint)
    tokenizer = checkpoint.tokenizer()
    with TemporaryDirectory() as folder:
        documents = read_corpus(files).documents
        tokens = write_tokens(Path(folder) / "tokens.bin", documents, tokenizer)
        spans = document_spans(tokens, tokenizer.end_of_text)
        return evaluate(
            checkpoint.model().to(device_at_hand(settings.device)),
            tokens,
            make_windows(spans, settings.context, settings.context),
            batch=settings.batch,
            target_bytes=bytes_of_targets(tokens, spans, tokenizer),
            unknown_share=tokenizer.unknown_share(targets_of(tokens, spans)),
            precision=settings.precision,
            kernel=settings.loss_kernel,
        )


def run_generation(
    run: Path,
    prompt: str,
    tokens: int,
    temperature: float,
    top_k: int,
    top_p: float,
    seed: int,
    *,
    cached: bool,
) -> None:
    """Carry out `lossleuth generate`."""
    for name, value, fits, expected in (
        ("--tokens", tokens, tokens >= 1, "1 or more"),
        ("--temperature", temperature, 0 <= temperature < float("inf"), "0 or more"),
        ("--top-k", top_k, top_k >= 0, "0 or more"),
        ("--top-p", top_p, 0 < top_p <= 1, "more than 0 and at most 1"),
        ("--seed", seed, 0 <= seed <= LARGEST_WHOLE, "0 or more and below 2**63"),
        ("--prompt", ascii(prompt), is_plain_text(prompt), "text in UTF-8 without NUL"),
    ):
        if not fits:
            raise BadInput(f"{expected} for {name}", f"{value}", f"change {name}")
    checkpoint = load_checkpoint(run)
    tokenizer = checkpoint.tokenizer()
    model = checkpoint.model().to(device_at_hand(saved_settings(checkpoint).device))
    ids = tokenizer.encode(prompt)
    if tokenizer.unknown_share(ids):
        print("note: the prompt has text that the model has never seen", file=sys.stderr)
    drawn = generate(
        model,
        [tokenizer.end_of_text, *ids.tolist()],
        tokens,
        Sampling(temperature, top_k, top_p, seed),
        stop=tokenizer.end_of_text,
        never=tokenizer.unknown,
        cached=cached,
    )
    texts = _whole_texts(drawn, tokenizer)
    # The first token is drawn before anything is printed, so that a refusal stands alone.
    for text in chain((prompt + next(texts),), texts):
        sys.stdout.write(text)
        sys.stdout.flush()
    sys.stdout.write("\n")


def _whole_texts(drawn: Iterable[int], tokenizer: Tokenizer) -> Iterator[str]:
    """Text as soon as it is whole: a token may end inside a character."""
    pending: list[int] = []
    for token in drawn:
        pending.append(token)
        text = tokenizer.decode(pending)
        if not text.endswith("\N{REPLACEMENT CHARACTER}"):
            yield text
            pending.clear()
    yield tokenizer.decode(pending)
