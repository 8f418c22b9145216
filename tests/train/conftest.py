"""Makes `small` importable for the tests of the trainer."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
