"""How long a report takes to be made and to be painted, and how large it is.

A run of 200 steps, one of 10^5 steps, one of 500 layers; painted by Chromium, if it is there.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from lossleuth.judge.verdict import Verdict
from lossleuth.record.write import RecordWriter
from lossleuth.report.writing import write_reports

RUNS = {"200 steps": (200, 60), "100 000 steps": (100_000, 20), "500 layers": (200, 500)}
OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking")
COLUMNS = ["grad_rms", "update_ratio", "update_rms"]
# Until the paint is known.
PAINTED = """
const done = arguments[0];
new PerformanceObserver((list, observer) => {
  const found = list.getEntriesByName("first-contentful-paint");
  if (found.length) { observer.disconnect(); done(found[0].startTime); }
}).observe({ type: "paint", buffered: true });
"""


def run(console: Console) -> None:
    """Make each report, paint it and print the figures."""
    table = Table("run", "made in", "size", "first paint")
    for name, (steps, parameters) in RUNS.items():
        with tempfile.TemporaryDirectory() as folder:
            directory = Path(folder) / "run"
            _record(directory, steps, parameters)
            began = time.perf_counter()
            page = write_reports(directory, Verdict("healthy", {}, [], steps, 1.0))[1]
            made = time.perf_counter() - began
            size = page.stat().st_size / 1000
            table.add_row(name, f"{made:.2f} s", f"{size:.0f} kB", _painted(page))
    console.print(table)


def _record(directory: Path, steps: int, parameters: int) -> None:
    random = np.random.default_rng(0)
    writer = RecordWriter.create(directory, {"script": "train.py"}, warn=print)
    writer.parameters([f"layer {i}" for i in range(parameters)], [64] * parameters, COLUMNS)
    for step in range(steps):
        scalars = {"step": step, "loss": 3 + random.normal(), "lr": 1e-3, "grad_norm": 1.0}
        writer.step(scalars, random.lognormal(size=(parameters, len(COLUMNS))))
    writer.end({"how": "exit"})


def _painted(page: Path) -> str:
    driver, program = shutil.which("chromedriver"), shutil.which("chromium")
    if driver is None or program is None:
        return "no Chromium here"
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for option in OPTIONS:
        options.add_argument(option)
    found = webdriver.Chrome(options, Service(driver))
    try:
        found.get(page.as_uri())
        return f"{found.execute_async_script(PAINTED) / 1000:.2f} s"
    finally:
        found.quit()
