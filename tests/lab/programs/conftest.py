"""Makes `small_hosts` importable for the tests of hosts and faults."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
