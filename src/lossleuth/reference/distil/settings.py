"""Every hyper-parameter of a distillation: the trainer's, for the student, and these."""

from __future__ import annotations

from dataclasses import dataclass, fields

from lossleuth.reference.distil.curriculum import CURVES, Curriculum, Ramp
from lossleuth.reference.train.settings import TrainSettings
from lossleuth.settings import setting
from lossleuth.types.errors import BadInput

DIVERGENCES = ("forward_kl", "reverse_kl", "jensen_shannon")
NEW = "new"


@dataclass(frozen=True)
class DistilSettings(TrainSettings):
    """What a distillation is made of.

    >>> settings = DistilSettings(teacher="runs/large", temperature=2.0, temperature_end=1.5)
    >>> settings.curriculum.temperature(settings.steps - 1)
    1.5
    """

    tokenizer: str = setting(
        "teacher", "how text is split", choices=("teacher", "char", "word", "bpe")
    )
    teacher: str = setting(
        "", "run directory, Hugging Face directory, or module:function to learn from"
    )
    student: str = setting(
        NEW, f"who learns: the same kinds, or {NEW}: a model of --layers, --heads and --width"
    )
    divergence: str = setting("forward_kl", "between teacher and student", choices=DIVERGENCES)
    beta: float = setting(0.5, "share of the teacher in jensen_shannon", minimum=0, maximum=1)
    top_k: int = setting(0, "likeliest tokens of the teacher to keep; 0: all", minimum=0)
    vocabulary: str = setting(
        "auto",
        "how tokens are compared: exact by their text, else sorted probabilities",
        choices=("auto", "exact", "sorted"),
    )
    temperature: float = setting(1.0, "temperature of the divergence", above=0)
    temperature_end: float | None = setting(None, "at the last step; none: the same", above=0)
    curve: str = setting("linear", "how temperature and weights move", choices=CURVES)
    distil_weight: float = setting(0.9, "weight of the divergence", minimum=0)
    distil_weight_end: float | None = setting(None, "at the last step; none: the same", minimum=0)
    data_weight: float = setting(0.1, "weight of cross-entropy with the data", minimum=0)
    data_weight_end: float | None = setting(None, "at the last step; none: the same", minimum=0)
    hidden_weight: float = setting(0.0, "weight of hidden-state matching", minimum=0)
    hidden_weight_end: float | None = setting(None, "at the last step; none: the same", minimum=0)
    attention_weight: float = setting(0.0, "weight of attention matching", minimum=0)
    attention_weight_end: float | None = setting(
        None, "at the last step; none: the same", minimum=0
    )
    contrastive_weight: float = setting(0.0, "weight of the contrastive loss", minimum=0)
    contrastive_weight_end: float | None = setting(
        None, "at the last step; none: the same", minimum=0
    )
    label_smoothing: float = setting(
        0.0, "share of the target spread evenly, in what is minimised", minimum=0, maximum=0.99
    )
    average: float = setting(
        0.0, "horizon of averaged weights as a share of the run; 0: none", minimum=0, maximum=0.5
    )
    patience: int = setting(0, "evaluations without a better true loss; 0: never stop", minimum=0)
    shuffle_teacher: bool = setting(False, "learn from the teacher's answers to other positions")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.compile:
            raise BadInput(
                "no --compile for a distillation", "--compile", "use --no-compile: it looks inside"
            )
        if self.top_k and self.divergence != "forward_kl":
            raise BadInput(
                "--top-k only with --divergence forward_kl",
                f"{self.divergence}",
                "a teacher cut to its likeliest tokens has no other divergence",
            )
        # Made once here, so that what it refuses is refused before anything is loaded.
        _ = self.curriculum

    @property
    def curriculum(self) -> Curriculum:
        """Temperature and weights over the run; parts whose weight is always 0 are left out."""
        parts = {}
        for name in ("distil", "data", "hidden", "attention", "contrastive"):
            ramp = self._ramp(f"{name}_weight")
            if ramp.start or ramp.end or name in ("distil", "data"):
                parts[name] = ramp
        return Curriculum(self._ramp("temperature"), parts, self.steps)

    def _ramp(self, name: str) -> Ramp:
        start, end = getattr(self, name), getattr(self, f"{name}_end")
        return Ramp(start, start if end is None else end, self.curve)

    def of_student(self, tokenizer: str) -> TrainSettings:
        """The settings with which the student would be trained on data alone."""
        own = {field.name: getattr(self, field.name) for field in fields(TrainSettings)}
        return TrainSettings(**own | {"tokenizer": tokenizer})
