"""Samples in random order."""

from __future__ import annotations

from lossleuth.types.challenge import Challenge
from lossleuth.types.change import Change

CHALLENGES = (Challenge(Change.of("shuffle_batches"), "with samples in random order"),)
