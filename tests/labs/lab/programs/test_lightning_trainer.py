"""The host of Lightning: it learns, looks back only, and repeats itself."""

from __future__ import annotations

import pytest
from every_host import EveryHost

pytestmark = pytest.mark.filterwarnings("ignore")


class TestLightningTrainer(EveryHost):
    host = "lightning_trainer"
