"""Faults of a reported number, on which no weight depends."""

from __future__ import annotations

from lossleuth.catalogue import causes
from lossleuth.types.judgement import Stage

OF_EVALUATION = frozenset(cause.id for cause in causes() if cause.stage is Stage.EVALUATION)
# What is said where there is no other fault.
NOT_THE_TRAINING = "and no fault of the training was found"
