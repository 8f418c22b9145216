"""Everything a distillation needs, put together and checked before anything is written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import nn

from lossleuth.reference.distil.alignment import Alignment, check_ends, stream_ends
from lossleuth.reference.distil.host_tokenizer import HostTokenizer
from lossleuth.reference.distil.measure import true_loss
from lossleuth.reference.distil.objective import Objective, make_projectors
from lossleuth.reference.distil.outputs import look
from lossleuth.reference.distil.settings import NEW, DistilSettings
from lossleuth.reference.distil.sources import Source, load_source, tied_parameters
from lossleuth.reference.distil.teacher import FrozenTeacher
from lossleuth.reference.distil.vocabularies import match_vocabularies
from lossleuth.reference.train.corpus import Corpus, read_corpus
from lossleuth.reference.train.data import BatchOrder, make_batch, make_windows, misaligned
from lossleuth.reference.train.evaluate import Evaluation, bytes_of_targets, evaluate, targets_of
from lossleuth.reference.train.loop import make_optimizer
from lossleuth.reference.train.memory import check_memory
from lossleuth.reference.train.model import LanguageModel
from lossleuth.reference.train.precision import choose_device
from lossleuth.reference.train.prepare import Prepared, prepare
from lossleuth.reference.train.session import model_shape
from lossleuth.reference.train.settings import TrainSettings
from lossleuth.reference.train.split import EncodedSplit, encode_split, hold_back
from lossleuth.reference.train.tokenizer import Tokenizer
from lossleuth.types.errors import BadInput


@dataclass
class Assembly:
    """Data, teacher, student, and what joins them."""

    settings: DistilSettings
    of_student: TrainSettings
    corpus: Corpus
    prepared: Prepared
    source: Source
    teacher: FrozenTeacher
    student: nn.Module
    trainable: nn.ModuleDict
    optimizer: torch.optim.AdamW
    objective: Objective
    order: BatchOrder
    teacher_result: Evaluation
    untrained: Evaluation

    @property
    def teacher_is_worse(self) -> str | None:
        """A warning with figures where there is nothing to learn from the teacher."""
        theirs, ours, unit = self.teacher_result.loss, self.untrained.loss, "nats/token"
        if self.teacher.match.kind == "sorted":
            bits = self.teacher_result.bits_per_byte, self.untrained.bits_per_byte
            if bits[0] is None or bits[1] is None:
                return None
            (theirs, ours), unit = (bits[0], bits[1]), "bits per byte"
        if theirs < ours:
            return None
        return (
            f"warning: the teacher is no better than the student before training: {theirs:.4f} "
            f"against {ours:.4f} {unit} on the validation set"
        )

    @property
    def teacher_has_seen(self) -> str | None:
        """A warning where the teacher was trained on text that is held back here."""
        before = self.source.settings
        ours = (self.settings.seed, self.settings.validation_share)
        if before is None or before.data != self.settings.data:
            return None
        if (before.seed, before.validation_share) == ours:
            return None
        return (
            f"warning: the teacher held back other documents (seed {before.seed}, share "
            f"{before.validation_share}; here {ours[0]}, {ours[1]}): it has seen some of the "
            "validation set, and its figures and the student's are too good"
        )

    def sentences(self) -> Iterator[str]:
        """What was found out before the first step."""
        count = sum(p.numel() for p in self.student.parameters())
        yield from self.prepared.sentences
        yield self.teacher.match.sentence
        yield f"teacher: {self.source.name}, {_parameters(self.source.module):,} parameters, frozen"
        tied = "; ".join(" = ".join(names) for names in tied_parameters(self.student))
        yield f"student: {count:,} parameters in float32" + (f"; tied: {tied}" if tied else "")
        yield from self.objective.curriculum.table()
        if self.settings.average:
            horizon = self.settings.average * self.settings.steps
            yield f"weights are averaged over about {horizon:.0f} steps"
        if self.settings.shuffle_teacher:
            yield "control: every answer of the teacher is to another position"
        yield from filter(None, (self.teacher_is_worse, self.teacher_has_seen))


def assemble(settings: DistilSettings) -> Assembly:
    """Load, check and join; writes nothing."""
    device = choose_device(settings.device)
    source = load_source(settings.teacher, "teacher")
    learner = None if settings.student == NEW else load_source(settings.student, "student")
    corpus = read_corpus(settings.data)
    tokenizer = _tokenizer(settings, source, learner)
    kind = tokenizer.kind if tokenizer else settings.tokenizer
    of_student = settings.of_student(kind)
    prepared = prepare(corpus, of_student, tokenizer)
    match = match_vocabularies(
        prepared.tokenizer, source.tokenizer, corpus.documents, settings.vocabulary
    )
    _check_context(settings, source, learner, kind=match.kind)
    _check_inside(settings, match.kind)
    teacher = FrozenTeacher(
        source.module.to(device),
        match,
        precision=settings.precision,
        shuffled=settings.seed if settings.shuffle_teacher else None,
    )
    teacher.fit_width(prepared.tokenizer.size, named=source.tokenizer is not None)
    if match.kind == "sorted":
        assert source.tokenizer is not None
        teacher_result = _align(settings, source, corpus, of_student, prepared, teacher)
    else:
        teacher_result = evaluate(
            teacher.as_model(),
            prepared.tokens,
            prepared.validation,
            batch=settings.batch,
            target_bytes=prepared.validation_bytes,
            unknown_share=prepared.validation_unknown,
            precision=settings.precision,
            kernel=settings.loss_kernel,
        )
    torch.manual_seed(settings.seed)
    student, of_student = _student(learner, of_student, prepared.tokenizer, device)
    if student is source.module:
        raise BadInput(
            "a student that is not its own teacher", "the same model twice", "make a second one"
        )
    order = BatchOrder(len(prepared.training), settings.batch, settings.seed)
    objective, trainable = _objective(settings, teacher, student, prepared, order, device)
    return Assembly(
        settings=settings,
        of_student=of_student,
        corpus=corpus,
        prepared=prepared,
        source=source,
        teacher=teacher,
        student=student,
        trainable=trainable,
        optimizer=make_optimizer(trainable, settings),
        objective=objective,
        order=order,
        teacher_result=teacher_result,
        untrained=true_loss(
            student, prepared, settings.batch, settings.precision, settings.loss_kernel
        ),
    )


def _tokenizer(
    settings: DistilSettings, teacher: Source, learner: Source | None
) -> Tokenizer | None:
    """The student's own tokenizer, the teacher's, or None: one to be fitted on the data."""
    own = learner.tokenizer if learner else None
    if own is not None:
        if settings.tokenizer not in ("teacher", own.kind):
            raise BadInput(
                f"the student's own tokenizer ({own.kind})",
                f"--tokenizer {settings.tokenizer}",
                "leave it out",
            )
        return own
    if settings.tokenizer != "teacher":
        return None
    if teacher.tokenizer is None:
        raise BadInput(
            "a way to split text",
            f"no tokenizer of {teacher.name}",
            "give --tokenizer char, word or bpe, or the teacher's module a `tokenizer`",
        )
    return teacher.tokenizer


def _check_context(
    settings: DistilSettings, teacher: Source, learner: Source | None, *, kind: str
) -> None:
    for source, whose in ((teacher, "teacher"), (learner, "student")):
        if source is None or source.context is None or (kind == "sorted" and whose == "teacher"):
            continue
        if source.context < settings.context:
            raise BadInput(
                f"a context that the {whose} can see, at most {source.context}",
                f"{settings.context}",
                f"use --context {source.context}",
            )


def _check_inside(settings: DistilSettings, kind: str) -> None:
    inside = [n for n in settings.curriculum.parts if n in ("hidden", "attention", "contrastive")]
    if kind == "sorted" and inside:
        raise BadInput(
            f"the same positions in teacher and student for --{inside[0]}-weight",
            "tokenizers that split text at other places",
            f"use --{inside[0]}-weight 0",
        )


def _student(
    learner: Source | None, settings: TrainSettings, tokenizer: Tokenizer, device: torch.device
) -> tuple[nn.Module, TrainSettings]:
    """The student, and settings that describe it."""
    if learner is None:
        shape = model_shape(settings, tokenizer)
        check_memory(shape, settings, device)
        return LanguageModel(shape).to(device), settings
    module = learner.module.to(device)
    if isinstance(module, LanguageModel):
        shape = module.shape
        settings = replace(
            settings,
            context=shape.context,
            layers=shape.layers,
            heads=shape.heads,
            width=shape.width,
            positions=shape.positions,
            tied=shape.tied,
            dropout=shape.dropout,
        )
    return module.requires_grad_(True), settings


def _objective(
    settings: DistilSettings,
    teacher: FrozenTeacher,
    student: nn.Module,
    prepared: Prepared,
    order: BatchOrder,
    device: torch.device,
) -> tuple[Objective, nn.ModuleDict]:
    """The loss with its projectors, sized by one look at the first batch."""
    batch = make_batch(prepared.tokens, prepared.training, order.at(0))
    wrong = misaligned(batch, prepared.tokens, prepared.training)
    if wrong:
        raise RuntimeError(f"{wrong} positions of the first batch have a wrong target")
    objective = Objective(settings, settings.curriculum, teacher)
    wanted = {"hidden": objective.hidden, "attention": objective.attention}
    with torch.no_grad():
        was_training = student.training
        seen = look(student.eval(), batch.inputs_BT[:1].to(device), **wanted)
        student.train(was_training)
    vocabulary = prepared.tokenizer.size
    if seen.logits_BTV.size(-1) != vocabulary:
        raise BadInput(
            f"a student with {vocabulary} logits at each position",
            f"{seen.logits_BTV.size(-1)}",
            "make its vocabulary that of its tokenizer",
        )
    answer = teacher.answer(batch, 0, **wanted).outputs
    objective.projectors = make_projectors(settings.curriculum.parts, seen, answer).to(device)
    return objective, nn.ModuleDict({"student": student, "projectors": objective.projectors})


def _align(
    settings: DistilSettings,
    source: Source,
    corpus: Corpus,
    of_student: TrainSettings,
    prepared: Prepared,
    teacher: FrozenTeacher,
) -> Evaluation:
    """Encode the same split in the teacher's tokens; its true loss is over these."""
    assert source.tokenizer is not None
    split = hold_back(
        corpus.documents,
        settings.validation_share,
        settings.seed,
        whole_words=of_student.tokenizer != "char",
    )
    theirs = encode_split(split, source.tokenizer)
    context = min(source.context or settings.context, 4 * settings.context)
    ours_ends = stream_ends(prepared.tokenizer, split.pieces, lone=split.lone)
    theirs_ends = stream_ends(source.tokenizer, split.pieces, lone=split.lone)
    check_ends(ours_ends, prepared.tokens, "student")
    check_ends(theirs_ends, theirs.tokens, "teacher")
    teacher.align(Alignment(ours_ends, theirs.tokens, theirs_ends, context), prepared.training)
    return evaluate(
        teacher.as_model(),
        theirs.tokens,
        make_windows(theirs.held, context, context),
        batch=settings.batch,
        target_bytes=_bytes(source.tokenizer, theirs),
        unknown_share=source.tokenizer.unknown_share(targets_of(theirs.tokens, theirs.held)),
        precision=settings.precision,
        kernel=settings.loss_kernel,
    )


def _bytes(tokenizer: Tokenizer, encoded: EncodedSplit) -> int | None:
    """Bytes of the held-back targets, where the tokenizer says which each token has."""
    if isinstance(tokenizer, HostTokenizer) and not tokenizer.is_byte_level:
        return None
    return bytes_of_targets(encoded.tokens, encoded.held, tokenizer)


def _parameters(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())
