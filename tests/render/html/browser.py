"""A headless Chromium, driven over the WebDriver protocol with nothing but the standard library."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
CHROMEDRIVER = shutil.which("chromedriver")
WHY_NOT = "there is no chromium with its chromedriver here: apt-get install chromium chromium-driver"

# Every host name resolves to nothing, so that whatever a page asks for fails, and is logged as an error.
_ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)


class Browser:
    """One session; leave it with ``close``."""

    def __init__(self, profile: Path, *, dark: bool = False) -> None:
        self._driver = subprocess.Popen(
            [str(CHROMEDRIVER), "--port=0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | {"HOME": str(profile)},
        )
        self._base = f"http://127.0.0.1:{self._port()}"
        arguments = [*_ARGUMENTS, f"--user-data-dir={profile / 'profile'}"]
        if dark:
            arguments.append("--force-dark-mode")
        capabilities = {
            "browserName": "chrome",
            "goog:chromeOptions": {"binary": CHROMIUM, "args": arguments},
            "goog:loggingPrefs": {"browser": "ALL"},
        }
        made = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": capabilities}})
        self._session = f"/session/{made['sessionId']}"

    def _port(self) -> int:
        assert self._driver.stdout is not None
        for line in self._driver.stdout:
            if "started successfully on port" in line:
                return int(line.rstrip().rstrip(".").rpartition(" ")[2])
        raise RuntimeError("chromedriver did not start")

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._base + path, data, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["value"]

    def open(self, page: Path) -> None:
        """Open a file and wait until its charts are drawn."""
        self._ask("POST", f"{self._session}/url", {"url": page.as_uri()})
        self.settle()

    def settle(self) -> None:
        """Wait until the page has drawn its charts."""
        end = time.monotonic() + 30
        while not self.run("return document.documentElement.dataset.drawn"):
            assert time.monotonic() < end, f"the page drew nothing: {self.log()}"
            time.sleep(0.05)

    def run(self, script: str, *arguments: Any) -> Any:
        """Return what a script returns."""
        return self._ask("POST", f"{self._session}/execute/sync", {"script": script, "args": list(arguments)})

    def size(self, width: int, height: int = 900) -> None:
        """Show the page in a viewport of this size, whatever the smallest window of the system."""
        shape = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.devtools("Emulation.setDeviceMetricsOverride", shape)
        time.sleep(0.4)

    def prefer(self, theme: str) -> None:
        """Set the theme that the system asks for, ``light`` or ``dark``."""
        features = [{"name": "prefers-color-scheme", "value": theme}]
        self.devtools("Emulation.setEmulatedMedia", {"features": features})

    def devtools(self, command: str, parameters: dict[str, Any]) -> Any:
        """Run a command of the DevTools protocol."""
        return self._ask("POST", f"{self._session}/goog/cdp/execute", {"cmd": command, "params": parameters})

    def log(self) -> list[str]:
        """Return what the console says since it was last asked: errors, warnings, blocked requests."""
        return [entry["message"] for entry in self._ask("POST", f"{self._session}/se/log", {"type": "browser"})]

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        """Write a picture of the viewport, or of the whole page."""
        taken = self.devtools("Page.captureScreenshot", {"format": "png", "captureBeyondViewport": whole})
        path.write_bytes(base64.b64decode(taken["data"]))

    def close(self) -> None:
        """End the session and the driver."""
        try:
            self._ask("DELETE", self._session)
        finally:
            self._driver.terminate()
            self._driver.wait(timeout=10)
            if self._driver.stdout is not None:
                self._driver.stdout.close()
