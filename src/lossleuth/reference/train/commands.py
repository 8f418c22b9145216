"""What the verbs train, evaluate, generate and analyze-vocab do once torch may be imported."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from rich.console import Console
from rich.table import Table

from lossleuth.record import strict_json
from lossleuth.reference.train.allocator import keep_freed_memory
from lossleuth.reference.train.checkpoint import Checkpoint, load_checkpoint
from lossleuth.reference.train.corpus import read_corpus
from lossleuth.reference.train.data import document_spans, make_windows, write_tokens
from lossleuth.reference.train.evaluate import Evaluation, bytes_of_targets, evaluate, targets_of
from lossleuth.reference.train.generate import Sampling, generate
from lossleuth.reference.train.memory import memory_told_plainly
from lossleuth.reference.train.output import patient_console
from lossleuth.reference.train.precision import device_at_hand
from lossleuth.reference.train.prepare import Prepared, prepare
from lossleuth.reference.train.resume import check_place, saved_settings
from lossleuth.reference.train.run_directory import check_free
from lossleuth.reference.train.session import Session
from lossleuth.reference.train.settings import TrainSettings
from lossleuth.reference.train.tokenizer import Tokenizer
from lossleuth.reference.train.vocabulary import analyze_vocabulary
from lossleuth.run_directory import dated_directory
from lossleuth.settings import LARGEST_WHOLE, Resolved, is_plain_text, resolve
from lossleuth.types.errors import BadInput

S = TypeVar("S", bound=TrainSettings)


def run_training(
    options: Mapping[str, Any],
    out: Path | None,
    config: Path | None,
    resume: Path | None,
    *,
    overwrite: bool,
    record: bool,
) -> None:
    """Carry out `lossleuth train`."""
    keep_freed_memory()
    resumed = load_checkpoint(resume) if resume else None
    saved = resumed.header.settings if resumed else None
    resolved = with_absolute_data(resolve(TrainSettings, options=options, file=config, saved=saved))
    _check_compiler(resolved.values)
    if resumed:
        check_place(resumed, out, overwrite=overwrite)
        directory = resumed.path.parent
    else:
        directory = out or dated_directory()
        check_name("run directory", str(directory))
        if not overwrite:
            check_free(directory)
    output = patient_console()
    with memory_told_plainly():
        result = Session(resolved, directory, output, resumed=resumed, record=record).run()
    for line in (
        f"final validation: {result.sentence()}",
        f"next: lossleuth generate {directory} --prompt 'The '",
    ):
        output.print(line, markup=False, highlight=False, soft_wrap=True)


def with_absolute_data(resolved: Resolved[S]) -> Resolved[S]:
    """Data files by their absolute names: a run may be resumed from another directory."""
    data = tuple(str(Path(name).absolute()) for name in resolved.values.data)
    for name in data:
        check_name("data file", name)
    return replace(resolved, values=replace(resolved.values, data=data))


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


def run_vocabulary_analysis(files: Sequence[str]) -> None:
    """Carry out `lossleuth analyze-vocab`."""
    corpus = read_corpus(files)
    distinct = len(set().union(*corpus.documents))
    print(
        f"{corpus.source}: {len(corpus.documents)} documents, {corpus.characters:,} characters, "
        f"{distinct} distinct"
    )
    table = Table(box=None, pad_edge=False)
    table.add_column("tokenizer")
    for heading in ("vocabulary", "tokens", "unknown", "ln V", "unigram", "bigram"):
        table.add_column(heading, justify="right")
    refusals = []
    for row in analyze_vocabulary(corpus):
        if isinstance(row, BadInput):
            refusals.append(row)
            continue
        entropies = (row.floors.uniform, row.floors.unigram, row.floors.bigram)
        table.add_row(
            row.tokenizer,
            f"{row.size:,}",
            f"{row.tokens:,}",
            f"{row.unknown_share:.2%}",
            *(f"{entropy:.4f}" for entropy in entropies),
        )
    Console().print(table)
    print("ln V, unigram and bigram are nats per token: the losses of knowing nothing, how often")
    print("each token occurs, and which token follows which.")
    for refusal in refusals:
        print(f"not tried: {refusal}")


def check_name(what: str, name: str) -> None:
    """Neither safetensors nor JSON can hold a name that is not UTF-8."""
    if not is_plain_text(name):
        raise BadInput(f"a {what} whose name is UTF-8", ascii(name), "rename it or a folder of it")


def _check_compiler(settings: TrainSettings) -> None:
    if settings.compile and shutil.which("g++") is None:
        raise BadInput("a C++ compiler for --compile", "no g++", "install g++ or use --no-compile")
