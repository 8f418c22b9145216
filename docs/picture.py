"""Make `docs/report.png`, the picture in the README: the report of a founding case.

make picture
"""

from __future__ import annotations

import base64
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from lossleuth.labs import cases

CASES = cases.__path__[0]

OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"),
    "--hide-scrollbars",
)
SIZE = {"width": 940, "height": 460, "deviceScaleFactor": 1.5, "mobile": False}


def main(out: Path, case: str) -> None:
    """Judge the case, open its report, and take its head."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        subprocess.run([sys.executable, "-m", "lossleuth", "demo", case, "--out", run], check=True)
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium") or ""
        for option in OPTIONS:
            options.add_argument(option)
        driver = webdriver.Chrome(options, Service(shutil.which("chromedriver") or ""))
        try:
            driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", SIZE)
            driver.get((run / "report.html").as_uri())
            # Whose machine it was made on is nobody's business.
            driver.execute_script(
                "for (const e of document.querySelectorAll('h1, header p, .answer, .place'))"
                " for (const n of e.childNodes) if (n.nodeType === 3)"
                " n.textContent = n.textContent.replaceAll(arguments[0], '')",
                f"{CASES}/",
            )
            found = driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
        finally:
            driver.quit()
        out.write_bytes(base64.b64decode(found["data"]))


if __name__ == "__main__":
    main(Path(__file__).with_name("report.png"), "kahan")
