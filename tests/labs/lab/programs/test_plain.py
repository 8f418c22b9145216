"""The host of an own model and an own loop: it learns, looks back only, and repeats itself."""

from __future__ import annotations

import pytest
from every_host import EveryHost

pytestmark = pytest.mark.filterwarnings("ignore")


class TestPlain(EveryHost):
    host = "plain"
