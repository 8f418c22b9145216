"""What the lab has to offer: every fault in every host, alone or in pairs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lossleuth.catalogue import causes
from lossleuth.labs.lab.programs import planting
from lossleuth.labs.lab.programs.planting import Fault, fault_of
from lossleuth.types.errors import BadInput

HOSTS = ("plain", "hf_loop", "lightning_trainer")
PEERS = "peers"
HEALTHY = "healthy"
PAIRS = (
    ("label_offset", "gradient_not_cleared"),
    ("double_softmax", "lr_too_high"),
    ("wrong_backward", "schedule_too_fast"),
    ("future_leak", "parameters_frozen"),
    ("graph_cut", "repeated_batch"),
    ("future_leak", "update_rule_wrong"),
    ("batch_leak", "lr_too_low"),
)
INVENTED = (
    "scores_squashed",
    "tokens_renamed",
    "tokens_mistyped",
    "weights_restored",
    "scores_dropped",
)
# Additions to a host that are no faults: it stays healthy, and is the twin of faults in them.
TWINS = ("distilled", "evaluated")
# What they are called where they were first measured, as a fault of ours and its dose.
PEERS_FAULTS: dict[str, tuple[str, float | None]] = {
    "badfn": ("wrong_backward", None),
    "otherloss": ("loss_disconnected", None),
    "shift0": ("label_offset", 0.0),
    "shift2": ("label_offset", 2.0),
    "nomask": ("future_leak", 32.0),
}


@dataclass(frozen=True)
class Cell:
    """A host with faults in it, and what is to be said of it."""

    host: str
    # What it is called in its row of the table.
    name: str
    faults: tuple[str, ...] = ()
    # Of the first fault; its own where there is none.
    dose: float | None = None
    rule: str = "adamw"

    @property
    def id(self) -> str:
        """The name by which it is kept."""
        dose = "" if self.dose is None else f"@{self.dose:g}"
        return f"{self.host}/{self.name}{dose}"

    @property
    def script(self) -> Path:
        """The script that is examined."""
        return planting.FOLDER / f"{self.host}.py"

    @property
    def arguments(self) -> list[str]:
        """What the script is told."""
        found = [] if self.rule == "adamw" else ["--rule", self.rule]
        for fault in self.faults:
            found += ["--fault", fault]
        if self.dose is not None:
            # With a sign of its own, a number would be taken for an option.
            found.append(f"--dose={self.dose:g}")
        return found

    @property
    def wanted(self) -> tuple[str, ...]:
        """The causes that are to be proven; none where it is healthy or nobody's business."""
        return tuple(f for f in self.faults if f not in INVENTED and f not in sound())


def sound() -> tuple[str, ...]:
    """What can be planted and is no fault."""
    return (*TWINS, *(odd.id for odd in planting.oddities()))


def unfit(fault: Fault, host: str) -> str | None:
    """Why a fault makes no sense in a host, if it does not."""
    return fault.unfit.get(host)


def singles() -> list[Cell]:
    """Each cause in each host in which it makes sense, and the hosts as they are."""
    found = []
    for host in HOSTS:
        found += [Cell(host, HEALTHY), Cell(host, "healthy_sgd", rule="sgd")]
        found += [Cell(host, name, (name,)) for name in TWINS]
        for cause in causes():
            fault = fault_of(cause.id)
            if unfit(fault, host) is None:
                found.append(Cell(host, fault.id, (fault.id,), fault.dose, fault.rule))
    return found


def pairs() -> list[Cell]:
    """Two faults at once."""
    return [Cell("plain", "+".join(pair), pair) for pair in PAIRS]


def invented() -> list[Cell]:
    """Faults that no cause covers."""
    return [Cell("plain", name, (name,), fault_of(name).dose) for name in INVENTED]


def oddities() -> list[Cell]:
    """Sound programs that look sick."""
    return [Cell("plain", o.id, (o.id,), o.dose, o.rule) for o in planting.oddities()]


def peers() -> list[Cell]:
    """The five faults of the comparison with other tools, and none of them."""
    found = [Cell(PEERS, HEALTHY)]
    for name, (fault, dose) in PEERS_FAULTS.items():
        found.append(Cell(PEERS, name, (fault,), dose))
    return found


def every() -> list[Cell]:
    """All of them, in the order of the table."""
    return [*singles(), *pairs(), *invented(), *oddities(), *peers()]


def chosen(
    hosts: tuple[str, ...] = (),
    faults: tuple[str, ...] = (),
    *,
    only_pairs: bool = False,
    only_invented: bool = False,
) -> list[Cell]:
    """The cells that were asked for; all where nothing was."""
    found = every()
    if only_pairs or only_invented:
        found = [*(pairs() if only_pairs else ()), *(invented() if only_invented else ())]
    _check("hosts", hosts, {cell.host for cell in every()})
    _check("faults", faults, {cell.name for cell in every()})
    return [
        cell
        for cell in found
        if (not hosts or cell.host in hosts) and (not faults or cell.name in faults)
    ]


def _check(what: str, given: tuple[str, ...], known: set[str]) -> None:
    for name in given:
        if name not in known:
            raise BadInput(
                f"names of {what}", repr(name), f"give one of {', '.join(sorted(known))}"
            )
