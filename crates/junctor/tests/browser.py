#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Headless Chromium by the DevTools protocol over a pipe, for tests of pages. Importing it exits with 77 where there is no Chromium."""

import json
import os
import re
import shutil
import subprocess
import sys

PROGRAM = next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome", "chrome"])), None)
if PROGRAM is None:
    sys.exit(77)


class Browser:
    """A page of a browser. Requests of addresses that `allowed` does not match, and errors, are kept in `faults`."""

    def __init__(self, home, allowed="file:|about:"):
        self.allowed = allowed
        to_browser, self.to = os.pipe()
        back, from_browser = os.pipe()

        def plug():
            # Copies first, so that neither lands on the other.
            ends = [os.dup(to_browser), os.dup(from_browser)]
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", f"--user-data-dir={home}", "about:blank"]
        self.child = subprocess.Popen([PROGRAM, *flags], preexec_fn=plug, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.back, self.left, self.number, self.session, self.faults = os.fdopen(back, "rb"), b"", 0, None, []
        page = None
        while page is None:
            page = next((t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page"), None)
        self.session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ["Runtime", "Page", "Network"]:
            self.call(f"{domain}.enable")

    def message(self):
        while b"\0" not in self.left:
            got = self.back.read1(1 << 20)
            assert got, "the browser has ended"
            self.left += got
        one, self.left = self.left.split(b"\0", 1)
        return json.loads(one)

    def call(self, method, **params):
        self.number += 1
        order = {"id": self.number, "method": method, "params": params}
        if self.session:
            order["sessionId"] = self.session
        os.write(self.to, json.dumps(order).encode() + b"\0")
        while True:
            answer = self.message()
            if answer.get("id") == self.number:
                assert "error" not in answer, (method, answer)
                return answer["result"]
            told = answer.get("params", {})
            if answer.get("method") == "Runtime.exceptionThrown":
                self.faults.append(told["exceptionDetails"])
            if answer.get("method") == "Network.requestWillBeSent" and not re.match(self.allowed, told["request"]["url"]):
                self.faults.append(told["request"]["url"])

    def ask(self, script):
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, (script, answer["exceptionDetails"])
        return answer["result"].get("value")

    def settle(self):
        """Two frames later, so that what was asked for has been drawn."""
        self.ask("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))")

    def screen(self, width, height, scheme):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.settle()

    def text(self, id):
        return self.ask(f"document.getElementById({json.dumps(id)}).textContent")

    def key(self, key, code=None, **more):
        press = {"key": key, "text": key if len(key) == 1 else "\r" if key == "Enter" else "", **more}
        self.call("Input.dispatchKeyEvent", type="keyDown", **press)
        self.call("Input.dispatchKeyEvent", type="keyUp", **press)
        self.settle()

    def mouse(self, what, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=what, x=x, y=y, button=more.pop("button", "left"), **more)

    def click(self, x, y):
        self.mouse("mousePressed", x, y, clickCount=1, buttons=1)
        self.mouse("mouseReleased", x, y, clickCount=1)
        self.settle()

    def screenshot(self, name):
        """For people: where JUNCTOR_SCREENSHOTS names a folder."""
        if folder := os.environ.get("JUNCTOR_SCREENSHOTS"):
            import base64
            with open(f"{folder}/{name}.png", "wb") as file:
                file.write(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))
