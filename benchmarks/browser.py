"""A headless Chromium, controlled over its debugging pipe (https://chromedevtools.github.io/devtools-protocol/)."""

import base64
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")


class Browser:
    """One page at a time. Raises FileNotFoundError if there is no Chromium, EOFError if it ends by itself."""

    def __init__(self) -> None:
        program = next(filter(None, map(shutil.which, NAMES)), None)
        if program is None:
            raise FileNotFoundError(f"no browser: none of {', '.join(NAMES)} is installed")
        self._profile = tempfile.mkdtemp(prefix="octavo-browser-")
        theirs_in, self._ask = os.pipe()
        self._answers, theirs_out = os.pipe()
        command = (
            f'exec 3<&{theirs_in} 4>&{theirs_out}; exec "$0" --headless --no-sandbox --disable-gpu --hide-scrollbars '
            '--remote-debugging-pipe --user-data-dir="$1" about:blank'
        )
        self._process = subprocess.Popen(
            ["sh", "-c", command, program, self._profile], pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(theirs_in)
        os.close(theirs_out)
        self._number, self._buffer, self._session = 0, b"", ""
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._call("Page.enable")

    def __enter__(self) -> "Browser":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait()
        os.close(self._ask)
        os.close(self._answers)
        shutil.rmtree(self._profile, ignore_errors=True)

    def open(self, page: Path, width: int, *, dark: bool = False, scale: float = 1) -> None:
        """Loads a page in a window of that many CSS pixels; `scale` is the number of device pixels per CSS pixel."""
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=900, deviceScaleFactor=scale, mobile=width < 500,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])
        self._send("Page.navigate", url=page.resolve().as_uri())
        while self._read().get("method") != "Page.loadEventFired":
            pass

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression."""
        return self._call("Runtime.evaluate", expression=script, returnByValue=True)["result"].get("value")

    def picture(self, x: float, y: float, width: float, height: float) -> bytes:
        """A PNG of a part of the page; CSS pixels, from its upper left corner."""
        clip = {"x": x, "y": y, "width": width, "height": height, "scale": 1}
        found = self._call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        return base64.b64decode(found["data"])

    def printed(self) -> bytes:
        """The page as a PDF."""
        return base64.b64decode(self._call("Page.printToPDF", preferCSSPageSize=True)["data"])

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = self._send(method, **parameters)
        while True:
            message = self._read()
            if message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]

    def _send(self, method: str, **parameters: Any) -> int:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._ask, json.dumps(message).encode() + b"\0")
        return self._number

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            more = os.read(self._answers, 1 << 16)
            if not more:
                raise EOFError("the browser ended")
            self._buffer += more
        first, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(first)
