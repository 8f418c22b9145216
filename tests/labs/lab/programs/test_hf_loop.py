"""The host of transformers' GPT-2 in an own loop: it learns, looks back only, repeats itself."""

from __future__ import annotations

import pytest
from every_host import EveryHost

pytestmark = pytest.mark.filterwarnings("ignore")


class TestHfLoop(EveryHost):
    host = "hf_loop"
