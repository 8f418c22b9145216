"""Makes `small` of this folder importable."""

import sys
from pathlib import Path

# Specimens that tests run in processes of their own.
collect_ignore = ["programs"]

sys.path.insert(0, str(Path(__file__).parent))
