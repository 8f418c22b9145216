"""What the verbs train and analyze-vocab do once torch may be imported."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console
from rich.table import Table

from lossleuth.reference.train.allocator import keep_freed_memory
from lossleuth.reference.train.checkpoint import load_checkpoint
from lossleuth.reference.train.corpus import read_corpus
from lossleuth.reference.train.memory import memory_told_plainly
from lossleuth.reference.train.output import patient_console
from lossleuth.reference.train.resume import check_place
from lossleuth.reference.train.run_directory import check_free
from lossleuth.reference.train.session import Session
from lossleuth.reference.train.settings import TrainSettings
from lossleuth.reference.train.vocabulary import analyze_vocabulary
from lossleuth.run_directory import dated_directory
from lossleuth.settings import Resolved, is_plain_text, resolve
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
