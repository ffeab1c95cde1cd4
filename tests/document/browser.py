"""A real headless browser, driven through two pipes: no port, no driver, no package."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PATH = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
PATIENCE = 60.0
STARTER = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.dup2(int(sys.argv[2]), 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Browser:
    """One process with one page after the other."""

    def __init__(self, send: int, receive: int) -> None:
        self._send, self._receive = send, receive
        self._buffer = b""
        self._number = 0
        self.events: list[dict[str, Any]] = []

    def ask(self, method: str, session: str | None = None, **parameters: object) -> dict[str, Any]:
        self._number += 1
        message: dict[str, object] = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._send, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer["error"])
                return dict(answer["result"])
            self.events.append(answer)

    def wait_for(self, method: str, session: str) -> None:
        """Wait for an event of one page: others may still be loading."""
        while not any(
            event.get("method") == method and event.get("sessionId") == session for event in self.events
        ):
            self.events.append(self._next())

    def _next(self) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._receive], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, "the browser does not answer"
            data = os.read(self._receive, 1 << 20)
            assert data, "the browser has ended"
            self._buffer += data
        message, _, self._buffer = self._buffer.partition(b"\0")
        return dict(json.loads(message))

    def open(self, path: Path, *, width: int = 1280, height: int = 900, scripts: bool = True) -> Page:
        self.events.clear()
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, target, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.ask(f"{domain}.enable")
        page.resize(width, height)
        page.ask("Emulation.setScriptExecutionDisabled", value=not scripts)
        page.ask("Page.navigate", url=path.as_uri())
        self.wait_for("Page.loadEventFired", session)
        return page


class Page:
    """One page."""

    def __init__(self, browser: Browser, target: str, session: str) -> None:
        self.browser, self.target, self.session = browser, target, session

    def ask(self, method: str, **parameters: object) -> dict[str, Any]:
        return self.browser.ask(method, self.session, **parameters)

    def run(self, code: str) -> Any:
        """Evaluate an expression from outside the page's policy; also where its own scripts are off."""
        answer = self.ask("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def resize(self, width: int, height: int) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.ask("Emulation.setDeviceMetricsOverride", **size)

    def media(self, *, kind: str = "", scheme: str = "light") -> None:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.ask("Emulation.setEmulatedMedia", media=kind, features=features)

    def point_at(self, selector: str) -> None:
        """Move the mouse to the middle of an element."""
        place = self.run(
            f"(() => {{ const it = document.querySelector({json.dumps(selector)});"
            "it.scrollIntoView({block: 'center'}); const box = it.getBoundingClientRect();"
            "return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        self.ask("Input.dispatchMouseEvent", type="mouseMoved", x=place[0], y=place[1])

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=key)

    def follow(self, key: str) -> None:
        """Press a key that leads to another page, and wait until that is there."""
        self.browser.events.clear()
        # The page that would see the key go up may be gone by then.
        self.ask("Input.dispatchKeyEvent", type="keyDown", key=key)
        self.browser.wait_for("Page.loadEventFired", self.session)

    def requests(self) -> list[str]:
        """Return the addresses of everything that was requested."""
        return [
            event["params"]["request"]["url"]
            for event in self.browser.events
            if event.get("method") == "Network.requestWillBeSent"
        ]

    def complaints(self) -> list[str]:
        """Return what the browser complained about: errors, and what the policy stopped."""
        found = []
        for event in self.browser.events:
            if event.get("method") == "Log.entryAdded":
                found.append(event["params"]["entry"]["text"])
            if event.get("method") == "Runtime.exceptionThrown":
                found.append(str(event["params"]["exceptionDetails"]))
        return found

    def close(self) -> None:
        self.browser.ask("Target.closeTarget", targetId=self.target)


@contextlib.contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """Start a browser with its own profile, and end it."""
    assert PATH is not None
    ours, theirs = _pipe(), _pipe()
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            STARTER,
            *map(str, (ours[0], theirs[1])),
            PATH,
            *FLAGS,
            f"--user-data-dir={profile}",
        ],
        pass_fds=(ours[0], theirs[1]),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(ours[0])
    os.close(theirs[1])
    started = Browser(ours[1], theirs[0])
    try:
        yield started
    finally:
        with contextlib.suppress(AssertionError, OSError):
            started.ask("Browser.close")
        os.close(ours[1])
        os.close(theirs[0])
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _pipe() -> tuple[int, int]:
    """Return a pipe whose ends are neither 3 nor 4, which the browser uses for its own."""
    ends = os.pipe()
    moved = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 20) for end in ends)
    for end in ends:
        os.close(end)
    return moved[0], moved[1]
