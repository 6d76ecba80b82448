"""Debian's Chromium without a window, driven by the DevTools protocol over pipes: no other package is needed."""
import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import time

KEYS = {"Enter": 13, "Escape": 27, " ": 32, "PageUp": 33, "PageDown": 34, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40,
        "Tab": 9}


def find_chromium():
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Refused(RuntimeError):
    """The browser's answer is an error, as to a question for a page that another one replaces."""


class Browser:
    """One process; close() ends it."""

    def __init__(self, profile):
        to_browser, self.write_end = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in os.pipe()]
        self.read_end, from_browser = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in os.pipe()]

        def take_ends():
            os.dup2(to_browser, 3)
            os.dup2(from_browser, 4)

        options = ["--headless=new", "--remote-debugging-pipe", f"--user-data-dir={profile}", "--no-first-run", "--disable-gpu", "--disable-dev-shm-usage",
                   "--hide-scrollbars", "--force-color-profile=srgb", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
        if os.geteuid() == 0:
            options.append("--no-sandbox")  # which Chromium refuses to root
        self.process = subprocess.Popen([find_chromium(), *options, "about:blank"], preexec_fn=take_ends, pass_fds=(3, 4),
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.rest, self.last, self.answers, self.pages = b"", 0, {}, {}

    def close(self):
        try:
            self.call("Browser.close")
            self.process.wait(20)
        except (OSError, RuntimeError, TimeoutError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        os.close(self.write_end)
        os.close(self.read_end)

    def call(self, method, session=None, **parameters):
        self.last += 1
        message = {"id": self.last, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        text = json.dumps(message).encode() + b"\0"
        while text:
            text = text[os.write(self.write_end, text):]
        number = self.last
        end = time.monotonic() + 120
        while number not in self.answers:
            if not self.receive(end - time.monotonic()):
                raise TimeoutError(f"no answer to {method}")
        answer = self.answers.pop(number)
        if "error" in answer:
            raise Refused(f"{method}: {answer['error']}")
        return answer["result"]

    def receive(self, seconds):
        """Takes in what has come; False when nothing came in time."""
        if seconds <= 0 or not select.select([self.read_end], [], [], seconds)[0]:
            return False
        part = os.read(self.read_end, 1 << 20)
        if not part:
            raise RuntimeError("the browser has ended")
        *messages, self.rest = (self.rest + part).split(b"\0")
        for text in messages:
            message = json.loads(text)
            if "id" in message:
                self.answers[message["id"]] = message
            elif message.get("sessionId") in self.pages:
                self.pages[message["sessionId"]].take(message["method"], message["params"])
        return True

    def open(self, path, **options):
        return Page(self, path, **options)


class Page:
    """A file in a tab. `troubles` has what no page of ours may do: errors, dialogs, requests."""

    READY = "document.body.dataset.layouts > 0"  # what the report page says when it is drawn

    def __init__(self, browser, path, width=1440, height=900, dark=False, mobile=False, ready=READY):
        self.browser, self.troubles = browser, []
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.target = target
        self.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        browser.pages[self.session] = self
        for domain in ("Runtime", "Log", "Page", "Network"):
            self.call(f"{domain}.enable")
        self.resize(width, height, mobile)
        self.emulate(dark=dark)
        self.navigate(path, ready)

    def navigate(self, path, ready=READY):
        url = "file://" + os.path.abspath(path)
        self.call("Page.navigate", url=url)
        self.wait_for(f"location.href === {json.dumps(url)} && document.readyState === 'complete' && ({ready})")

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def take(self, method, event):
        if method == "Runtime.exceptionThrown":
            details = event["exceptionDetails"]
            self.troubles.append(f"exception: {details['text']} {details.get('exception', {}).get('description', '')}")
        elif method == "Runtime.consoleAPICalled" and event["type"] in ("error", "warning", "assert"):
            self.troubles.append(f"console: {[value.get('value', value.get('description')) for value in event['args']]}")
        elif method == "Log.entryAdded" and event["entry"]["level"] in ("error", "warning"):
            self.troubles.append(f"log: {event['entry']['text']}")
        elif method == "Page.javascriptDialogOpening":
            self.troubles.append(f"dialog: {event['message']}")
        elif method == "Network.requestWillBeSent" and not event["request"]["url"].startswith(("file:", "blob:", "data:")):
            self.troubles.append(f"request: {event['request']['url']}")

    def close(self):
        self.browser.call("Target.closeTarget", targetId=self.target)

    def resize(self, width, height, mobile=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)

    def emulate(self, dark=False, media=""):
        self.call("Emulation.setEmulatedMedia", media=media, features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def value(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails'].get('exception', {}).get('description')}")
        return answer["result"].get("value")

    def wait_for(self, expression, seconds=60):
        end = time.monotonic() + seconds
        while not self.is_true(expression):
            if time.monotonic() > end:
                raise TimeoutError(f"{expression}; {self.troubles}")
            self.browser.receive(0.05)

    def is_true(self, expression):
        """False also while one page gives way to the next."""
        try:
            return self.value(f"Boolean({expression})")
        except Refused:
            return False

    def point_of(self, selector):
        """The middle of what can be seen of an element, scrolled into view."""
        found = self.value(f"""(() => {{
            const element = document.querySelector({json.dumps(selector)});
            if (!element) return null;
            if (!element.closest("svg")) element.scrollIntoView({{block: "nearest", inline: "nearest"}});
            const box = element.getBoundingClientRect();
            const left = Math.max(box.left, 0), right = Math.min(box.right, innerWidth), top = Math.max(box.top, 0), bottom = Math.min(box.bottom, innerHeight);
            return [(left + right) / 2, (top + bottom) / 2]; }})()""")
        if found is None:
            raise AssertionError(f"no {selector}")
        return found

    def click(self, selector):
        x, y = self.point_of(selector)
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="none" if kind == "mouseMoved" else "left", clickCount=0 if kind == "mouseMoved" else 1)

    def key(self, *names):
        for name in names:
            code = KEYS.get(name, ord(name[0].upper()))
            text = {"Enter": "\r"}.get(name, name if len(name) == 1 else "")
            self.call("Input.dispatchKeyEvent", type="keyDown", key=name, windowsVirtualKeyCode=code, text=text)
            self.call("Input.dispatchKeyEvent", type="keyUp", key=name, windowsVirtualKeyCode=code)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def screenshot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def pdf(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.printToPDF", preferCSSPageSize=True, printBackground=True)["data"]))
