"""Reports in a real browser."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from made_runs import EFFECT, record, true_losses, verdict
from real_browser import browser, complaints, opened, requests
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from lossleuth.report.writing import write_reports

HOSTILE = "<img src=http://foreign/x onerror=window.pwned=1>"
BREAKING = "</script><script>window.pwned=1</script>"

# The contrast of every text with the first background behind it that is not transparent.
CONTRAST = """
const luminance = ([r, g, b]) => {
  const part = (v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
};
const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
const behind = (element) => {
  for (let e = element; e; e = e.parentElement) {
    const found = numbers(getComputedStyle(e).backgroundColor);
    if (found.length < 4 || found[3] > 0) return found;
  }
  return [255, 255, 255];
};
const worst = [];
for (const part of document.querySelectorAll("body *")) {
  const own = [...part.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
  const style = getComputedStyle(part);
  if (!own || style.visibility === "hidden" || !part.getClientRects().length) continue;
  const ink = numbers(part instanceof SVGElement ? style.fill : style.color);
  const [a, b] = [luminance(ink), luminance(behind(part))];
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < 4.5) worst.push([part.tagName, part.textContent.slice(0, 40), ratio]);
}
return worst;
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with everything in it, of a run whose names are hostile."""
    folder = tmp_path_factory.mktemp("run")
    script = folder / "tr<b>ain.py"
    script.write_text("a = 1\nloss = f('</pre><script>window.pwned=1</script>')\nb = 2\n")
    losses = [3.0 - 0.01 * i if i != 40 else math.nan for i in range(80)]
    names = [HOSTILE, BREAKING, *(f"blocks.{i}.weight" for i in range(10))]
    record(
        folder / "observed",
        losses,
        parameters=names,
        header={"script": str(script), "arguments": [HOSTILE]},
        scalars={"grad_norm": 0.5, "reads": [[9.0, HOSTILE]]},
        events=[*true_losses((0, 3.0), (79, 2.2)), ("floors", {"unigram": 2.5, "bigram": 1.5})],
    )
    for seed in range(3):
        for number, changes in enumerate(([], [[EFFECT.change.name, {"factor": 0.1}]])):
            header = {"changes": changes, "seed_shift": 1000 * seed, "stop_steps": 8}
            values = [3.0 - 0.1 * i * (1 + number) for i in range(8)]
            record(folder / "trials" / "0" / f"{seed}{number}", values, header=header)
    return write_reports(folder, verdict(script=str(script), line=2))[1]


@pytest.fixture(scope="module")
def driver() -> Iterator[webdriver.Chrome]:
    with browser() as found:
        yield found


def asked(driver: webdriver.Chrome, script: str) -> Any:
    return driver.execute_script(script)


def test_names_of_the_program_do_nothing(driver: webdriver.Chrome, page: Path) -> None:
    requests(driver), complaints(driver)
    opened(driver, page)
    assert asked(driver, "return window.pwned") is None
    assert asked(driver, "return document.querySelectorAll('img').length") == 0
    assert asked(driver, "return document.scripts.length") == 1
    text = asked(driver, "return document.body.textContent")
    assert HOSTILE in text
    assert "</pre><script>window.pwned=1</script>" in text
    # Nothing was refused by the page's own policy, and nothing was asked of anybody.
    assert complaints(driver) == []
    assert requests(driver) == [page.resolve().as_uri()]


def test_the_policy_stops_what_is_not_ours(driver: webdriver.Chrome, page: Path) -> None:
    broken = page.with_name("broken.html")
    text = page.read_text().replace("<main>", "<main><script>window.pwned=1</script>")
    broken.write_text(text.replace("<header>", "<header><img src=http://foreign/x>"))
    complaints(driver)
    opened(driver, broken)
    assert asked(driver, "return window.pwned") is None
    assert len(complaints(driver)) >= 2


def test_values_are_shown_under_the_pointer_and_by_keys(
    driver: webdriver.Chrome, page: Path
) -> None:
    opened(driver, page)
    chart = driver.find_element(By.CSS_SELECTOR, "figure.chart svg[data-low]")
    ActionChains(driver).move_to_element(chart).perform()
    readout = chart.find_element(By.XPATH, "../output")
    assert readout.text.startswith("step ")
    assert "scale_lr(factor=0.1), seed 1 (nats)" in readout.text
    chart.send_keys(Keys.HOME)
    assert readout.text.startswith("step 0 ·")
    chart.send_keys(Keys.ARROW_RIGHT)
    assert readout.text.startswith("step 1 ·")
    flow = driver.find_element(By.CSS_SELECTOR, "canvas[data-cells]")
    flow.send_keys(Keys.ARROW_DOWN)
    value = flow.find_element(By.XPATH, "../output").text
    assert value == f"{BREAKING} at step 0: 0.0010"


def test_curves_are_drawn_and_reach_from_side_to_side(driver: webdriver.Chrome, page: Path) -> None:
    opened(driver, page)
    boxes = asked(
        driver,
        "return [...document.querySelectorAll('svg[data-low] path.curve')]"
        ".map((p) => [p.parentNode.parentNode.tagName, p.getBBox().width])",
    )
    # Six of the trial, then loss, reads, three of the effective step.
    assert len(boxes) == 11
    assert all(parent == "svg" for parent, _ in boxes)
    assert all(width > 500 for _, width in boxes)


def test_a_heat_map_is_painted(driver: webdriver.Chrome, page: Path) -> None:
    opened(driver, page)
    colours = asked(
        driver,
        "const c = document.querySelector('canvas[data-cells]');"
        "const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
        "const cell = (_, i) => d.slice(4 * i, 4 * i + 4).join();"
        "return [...new Set(Array.from({length: d.length / 4}, cell))]",
    )
    assert len(colours) == 7
    assert all(colour.endswith(",255") for colour in colours)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_text_stands_out_enough(driver: webdriver.Chrome, page: Path, dark: bool) -> None:
    opened(driver, page, dark=dark)
    asked(driver, "for (const d of document.querySelectorAll('details')) d.open = true")
    assert asked(driver, CONTRAST) == []


@pytest.mark.parametrize("width", [360, 1000])
def test_nothing_runs_out_of_the_page(driver: webdriver.Chrome, page: Path, width: int) -> None:
    opened(driver, page, width=width)
    asked(driver, "for (const d of document.querySelectorAll('details')) d.open = true")
    assert asked(driver, "return document.documentElement.scrollWidth") <= width
