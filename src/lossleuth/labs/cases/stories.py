"""What is known of each founding case: what was believed, what is true, where the fault is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Fault:
    """A cause, and the words of the line where it is."""

    cause: str
    file: str
    snippet: str

    @property
    def path(self) -> Path:
        """The file that the fault is in."""
        return HERE / self.file

    def line(self) -> int:
        """The number of the only line that holds the snippet."""
        lines = self.path.read_text(encoding="utf-8").splitlines()
        found = [number for number, text in enumerate(lines, 1) if self.snippet in text]
        if len(found) != 1:
            raise LookupError(f"{self.file}: {self.snippet!r} stands in {len(found)} lines, not 1")
        return found[0]


@dataclass(frozen=True)
class Story:
    """One founding case."""

    name: str
    believed: str
    # Causes that were blamed and are to be refuted.
    blamed: tuple[str, ...]
    # In the order in which they are to be named; a cause may be in several places.
    faults: tuple[Fault, ...]
    # Names of `--repair`, all of which `--repaired` makes.
    repairs: tuple[str, ...]
    text: str

    @property
    def script(self) -> Path:
        """The program."""
        return HERE / f"{self.name}.py"

    @property
    def causes(self) -> tuple[str, ...]:
        """The true causes, the first one first."""
        return tuple(dict.fromkeys(fault.cause for fault in self.faults))


def story(name: str) -> Story:
    """The story of this name.

    >>> story("kahan").causes
    ('wrong_backward',)
    """
    return next(story for story in STORIES if story.name == name)


OF_THE_STACK = (
    Fault("wrong_backward", "hand_written_stack.py", "inputs = [ctx.buffers.pair[0]]"),
    Fault("wrong_backward", "hand_written_stack.py", "x_BTC = ctx.buffers.pair[1]"),
    Fault(
        "batch_leak",
        "hand_written_layers.py",
        "keys, values = k_BHTK[self.used], v_BHTK[self.used]",
    ),
    Fault("future_leak", "hand_written_layers.py", "weights_BHTT = scores_BHTT.softmax(-1)"),
)

STORIES = (
    Story(
        name="rising_loss",
        believed="The learning rate of 1e-3 is too high; the gradient is right.",
        blamed=("lr_too_high",),
        faults=OF_THE_STACK,
        repairs=("backward", "norm", "batch", "mask"),
        text="""\
A character model, 4 layers, forward and backward written by hand. The loss falls, rises, wanders.
Believed: the rate is too high; the gradient is right, since GPU and CPU agree.
True: activations live in two buffers, used in turn. The backward makes every block again from the
first one, which by then holds the network's own output.
With one layer that is exact; from two layers on it is wrong, with four by about 0.9 of its size.
The last norm reads the wrong buffer too, when the number of layers is even.
Every row and head also looks at the keys and values of row 0, head 0, and at the future.
What proves it: a float64 replay of the program's own step, and tokens changed one at a time.
A tenth or a hundredth of the rate does not overfit one batch either; repaired, 1e-3 does.
Two implementations of the same wrong formula agree: that is no evidence.""",
    ),
    Story(
        name="always_clipped",
        believed="Every step is clipped, so the gradient is wrong: it must be the loss kernel.",
        blamed=("clip_too_tight",),
        faults=OF_THE_STACK,
        repairs=("backward", "norm", "batch", "mask"),
        text="""\
The same network with rate 5e-5, 200 steps of warm-up, and clipping at a norm of 1.5.
The log says: clipped 100 %.
Believed: clipping and a small rate hide a bug in the loss kernel.
True: the loss kernel is right. Its rows sum to zero, its target entry is negative, and it equals
softmax minus one-hot over the number of positions.
Clipping is innocent as well: Adam's update does not change when all gradients shrink alike,
and the repaired program is clipped nearly as often while it learns.
What is wrong is what was wrong before: the stack's backward, the last norm's backward,
attention that looks at row 0 only, and a causal mask that is never handed on.
A clip rate is a symptom of a threshold. It says nothing about the gradient's direction.""",
    ),
    Story(
        name="kahan",
        believed="A float32 sum of 34 exponentials loses percents; Kahan's summation is the cure.",
        blamed=("rounding_error",),
        faults=(Fault("wrong_backward", "kahan.py", "total_N1 = block_sum(ctx.saved_tensors[0])"),),
        repairs=("reduction",),
        text="""\
The network repaired, with a loss kernel that gives each row a block of threads, one per character.
The sum that it divides by is too small, by percents.
Believed: float32 rounding; cure: Kahan's summation, at no cost.
True: the reduction adds the upper half of the block to the lower until one is left.
At an odd size it drops the last entry: 2 of 34, 36 of 100, 488 of 1000, none of a power of two.
A plain float32 sum of 34 exponentials errs by less than 4e-7: a hundred thousand times less.
The finite differences that "confirmed" it took steps of 1e-5 in float32, where the quotient
itself is noise; with steps of 1e-2 they agree, and in float64 at both.
What proves it: the kernel's gradient against the derivative of its own forward, at several sizes.
Tolerances were then widened to 15 %, until the check was green.""",
    ),
    Story(
        name="constant_loss",
        believed="Cross-entropy is measured, but a squared error is differentiated.",
        blamed=("lr_too_low",),
        faults=(
            Fault("dead_network", "constant_loss.py", "if not self.settings.weight_scale:"),
            Fault("loss_disconnected", "constant_loss.py", "difference_BTC = last_BTC - network"),
        ),
        repairs=("init", "loss"),
        text="""\
A word model, vocabulary 10 000, gradients assigned by hand. The loss is 9.2103 at every epoch.
Believed: the loss that is printed is not the loss that is followed; or the rate is too low.
The first is true, and not the reason. 9.2103 is ln 10 000, to the last digit printed:
every score is the same.
True: all tensors are allocated as zero, gains of norms included, and the function that should
fill them returns at once, because a setting it asks for was never set.
Of a network of zeros the gradient is exactly 0, of the one loss as of the other, at any rate.
What proves it: repairing the loss alone changes nothing, 9.2103 again;
repairing the start alone moves the weights, and then the mismatch is what is left to repair;
with both repaired the loss falls below 3 in 200 steps.""",
    ),
    Story(
        name="run_three",
        believed="A temperature of 3.0 makes T² = 9, and the loss explodes.",
        blamed=("temperature_too_high",),
        faults=(
            Fault("never_steps", "run_three.py", "optimizer.step()"),
            Fault("labels_all_masked", "run_three.py", "lm_loss = F.cross_entropy("),
            Fault("perplexity_of_total", "run_three.py", "return total, math.exp(total)"),
            Fault("teacher_trained", "run_three.py", "= self.projector(hidden_BTC)"),
        ),
        repairs=("steps", "labels", "perplexity", "teacher"),
        text="""\
Distillation in mixed precision, 8 batches to an update. The loss jumps between 20 and 29 for ever.
Believed: the temperature is too high. A default was changed from 3.0 to 2.0, which nothing reads:
the loader supplies 4.0. T² times the divergence hardly depends on T in any case.
True: should_step() counts, and is asked twice a batch. The first question meets odd numbers only,
so that the optimizer never steps: lr 0.000e+00, evaluations equal to the last digit.
One batch is two texts of one word: no label, a mean over nothing, NaN, "clamped to zero".
The perplexity is the exponential of the whole weighted loss: 1e9 with 4096 words.
And the teacher's scores pass through a random projector that is trained with the student: both
move towards each other, whatever the teacher says.
What proves it: updates counted, labels counted, gradients that reach the target.""",
    ),
)
