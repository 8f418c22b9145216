"""Which steps of a run of unknown length are worth their recording.

A recorded step may cost as much as a hundred others, or hardly anything; a run may have thirty
steps or five thousand. So steps are chosen as the run unfolds: early ones densely, later ones by
how far the run has come and by the clock, and all of them within a share of the time. What a
recording costs is measured on those before.
"""

from __future__ import annotations

# Steps of a run, or of a phase of it, that are recorded first.
EARLY = (0, 1, 4, 16)
# After those, the next is recorded when a phase has come so many times as far as at the last, or
# after so large a share of the time. Picked by hand: some 8 in 1 000 quick steps, 14 in a run that
# uses up its time.
GROWTH, LONGEST_GAP = 1.7, 0.1
# Recordings may take this share of the time that has passed, or that share of all time there is;
# the first ones of a phase the former of all time.
MAX_SHARE, FREE_SHARE, FIRST_OF_PHASE = 0.5, 0.25, 3
# Recorded steps of one run, at most: each is held by whoever judges.
MOST = 40
# Of the last recordings, the dearest tells what the next one costs. The first one also paid for
# what is done once, such as imports and the first pass of a program: so much of it is its price.
# Picked by hand; it was 0.4 on a transformer of two layers.
PRICES, PRICE_OF_FIRST = 3, 0.6
# Steps of which a run has to have been seen before a second recording is made at any price: its own
# steps tell more than that. As many as the shortest trial has.
FEW_STEPS = 24


class Pacing:
    """Decides from step numbers and seconds alone; the clock is the caller's.

    >>> pacing = Pacing(seconds=48.0)
    >>> pacing.is_due(0, now=0.0)
    True
    >>> pacing.begin(0, now=0.0)
    >>> pacing.end(now=10.0)
    >>> pacing.is_due(1, now=10.1), pacing.is_due(2, now=10.2)
    (True, False)
    >>> pacing.begin(1, now=10.1)
    >>> pacing.end(now=20.1)
    >>> pacing.is_due(4, now=20.4)
    False
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._began: float | None = None
        # The first step of the phase, and the last one that was recorded.
        self._first = 0
        self._last = -1
        self._last_ended = 0.0
        self._in_phase = 0
        self._prices: list[float] = []
        self._spent = 0.0
        self._recording: float | None = None

    def new_phase(self, first: int) -> None:
        """Something else may be trained from this step on."""
        self._first, self._last = first, min(self._last, first - 1)
        self._in_phase = 0

    def is_due(self, step: int, now: float, *, asked: bool = False) -> bool:
        """Whether to record a step that begins now; one that is asked for, if it can be paid."""
        if self._began is None:
            self._began = self._last_ended = now
        if step <= self._last or len(self._prices) >= MOST:
            return False
        wanted = asked or self._is_wanted(step, now)
        return wanted and self._is_affordable(step - self._first, now - self._began)

    def begin(self, step: int | None, now: float) -> None:
        """A step is being recorded, or something else that costs time."""
        self._recording = now
        if step is not None:
            self._last = max(step, self._last)
            self._in_phase += 1

    def end(self, now: float) -> None:
        """It was recorded and looked at."""
        if self._recording is not None:
            price, self._recording = now - self._recording, None
            self._prices.append(price)
            self._spent += price
            self._last_ended = now

    def _is_wanted(self, step: int, now: float) -> bool:
        came, last = step - self._first, self._last - self._first
        if came in EARLY or now - self._last_ended > LONGEST_GAP * self._seconds:
            return True
        return came > EARLY[-1] and came >= GROWTH * last

    def _is_affordable(self, came: int, passed: float) -> bool:
        if not self._prices:
            return True
        price = max(self._prices[1:][-PRICES:] or [PRICE_OF_FIRST * self._prices[0]])
        spent = self._spent + price
        late = passed > MAX_SHARE * self._seconds
        if len(self._prices) == 1 and late and passed + price <= self._seconds:
            # Two can be compared; one is no more than a picture.
            return came >= FEW_STEPS
        free = MAX_SHARE if self._in_phase < FIRST_OF_PHASE else FREE_SHARE
        return spent <= max(MAX_SHARE * (passed + price), free * self._seconds)
