"""Headless Chromium without a network."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"),
    *("--disable-dev-shm-usage", "--hide-scrollbars", "--force-prefers-reduced-motion"),
    # No host name resolves.
    "--host-resolver-rules=MAP * ~NOTFOUND",
)


@contextmanager
def browser() -> Iterator[webdriver.Chrome]:
    """A browser that logs its console and requests; skips the test if none is installed."""
    driver, program = shutil.which("chromedriver"), shutil.which("chromium")
    if driver is None or program is None:
        pytest.skip("no Chromium here: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for option in OPTIONS:
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    found = webdriver.Chrome(options, Service(driver))
    try:
        yield found
    finally:
        found.quit()


def opened(driver: webdriver.Chrome, path: Path, *, dark: bool = False, width: int = 1000) -> None:
    """Open a file in light or dark mode, `width` pixels wide."""
    scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    driver.get(path.resolve().as_uri())


def requests(driver: webdriver.Chrome) -> list[str]:
    """The addresses requested since the last call."""
    found = []
    for entry in driver.get_log("performance"):
        message: dict[str, Any] = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            found.append(str(message["params"]["request"]["url"]))
    return found


def complaints(driver: webdriver.Chrome) -> list[str]:
    """Messages on the browser's console: errors, violations of the page's policy."""
    return [entry["message"] for entry in driver.get_log("browser")]
