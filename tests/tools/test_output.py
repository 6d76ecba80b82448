"""Where outputs go, what the terminal gets, and what an interrupted run leaves."""
import contextlib
import json
import os
import pty
import re
import signal
import stat
import subprocess
import time
import unittest
import zipfile

import torch

from support import OCTET, CommandTest

# What a terminal would obey: an escape sequence, a bell, a mark that turns the direction of writing; and a line end.
BAD = "\x1b[31m\a\u202e"


class Output(CommandTest):
    def test_special_files_stay(self):
        self.quantized_model()
        want = self.path("want.octet")
        self.octet("lower", self.path("q.pt2"), "--backend", "xnnpack", "--output", want)
        pipe = self.path("pipe")
        os.mkfifo(pipe)
        with open(self.path("got.octet"), "wb") as got, subprocess.Popen(["cat", pipe], stdout=got) as reader:
            self.octet("lower", self.path("q.pt2"), "--backend", "xnnpack", "--output", pipe)
            reader.wait(60)
        self.assertTrue(stat.S_ISFIFO(os.stat(pipe).st_mode))
        with open(want, "rb") as a, open(self.path("got.octet"), "rb") as b:
            self.assertEqual(a.read(), b.read())
        self.octet("run", want, "--inputs", self.path("x.pt"), "--outputs", "/dev/null")
        self.octet("quantize", self.path("model.pt2"), "--quantizer", "xnnpack", "--calibration", self.path("calibration.pt"), "--output", "/dev/null")
        self.assertTrue(stat.S_ISCHR(os.stat("/dev/null").st_mode))
        self.assertIn("No space left on device", self.fails("lower", self.path("q.pt2"), "--backend", "xnnpack", "--output", "/dev/full"))

    def test_links_and_modes_stay(self):
        self.quantized_model()
        os.chmod(self.path("q.pt2"), 0o640)
        os.symlink("q.pt2", self.path("link.pt2"))
        self.octet("quantize", self.path("model.pt2"), "--quantizer", "xnnpack", "--calibration", self.path("calibration.pt"), "--output", self.path("link.pt2"))
        self.assertTrue(os.path.islink(self.path("link.pt2")))
        self.assertEqual(stat.S_IMODE(os.stat(self.path("q.pt2")).st_mode), 0o640)

    def test_any_name_and_locale(self):
        self.small_model()
        for name, locale in (("a b.pt2", "C"), ("größe 北.pt2", "de_DE.UTF-8"), ("two\nlines.pt2", "C")):
            environment = {**os.environ, "LC_ALL": locale}
            command = [OCTET, "quantize", self.path("model.pt2"), "--quantizer", "xnnpack", "--calibration", self.path("calibration.pt"), "--output", self.path(name)]
            subprocess.run(command, check=True, capture_output=True, env=environment)
            self.assertTrue(os.path.exists(self.path(name)), name)
        self.assertIn("cannot be opened", self.fails("inspect", self.path("two\nlines.octet")))

    def test_no_output_replaces_an_input(self):
        self.quantized_model()
        os.symlink("model.pt2", self.path("link.pt2"))
        os.link(self.path("model.pt2"), self.path("hard.pt2"))
        self.write_json("c.json", {})
        model, data, q = self.path("model.pt2"), self.path("calibration.pt"), self.path("q.pt2")
        quantizer = ["--quantizer", "xnnpack", "--calibration", data]
        before = {name: os.stat(self.path(name)) for name in os.listdir(self.folder)}
        for option, output, command in (
            ("--output", model, ["fuse", model, "--output", model]),
            ("--output", model, ["fuse", self.path("sub/../model.pt2"), "--output", model]),
            ("--output", q, ["lower", q, "--backend", "xnnpack", "--output", q]),
            ("--output", self.path("link.pt2"), ["quantize", model, *quantizer, "--output", self.path("link.pt2")]),
            ("--output", self.path("hard.pt2"), ["quantize", model, *quantizer, "--output", self.path("hard.pt2")]),
            ("--output", data, ["quantize", model, *quantizer, "--output", data]),
            ("--dump-annotations", self.path("c.json"), ["quantize", model, *quantizer, "--config", self.path("c.json"), "--output", self.path("o.pt2"), "--dump-annotations", self.path("c.json")]),
            ("--state", self.path("c.json"), ["calibrate", model, *quantizer, "--config", self.path("c.json"), "--state", self.path("c.json")]),
            ("--outputs", self.path("x.pt"), ["run", q, "--inputs", self.path("x.pt"), "--outputs", self.path("x.pt")]),
            ("--save-config", self.path("c.json"), ["tune", model, *quantizer, "--min-sqnr", "9", "--config", self.path("c.json"), "--output", self.path("o.pt2"), "--save-config", self.path("c.json")]),
            ("--output", self.path("new.json"), ["compare", model, q, "--inputs", data, "--output", self.path("new.json"), "--output", self.path("sub/../new.json")]),
        ):
            with self.subTest(command=command[0], output=output):
                os.makedirs(self.path("sub"), exist_ok=True)
                self.assertRegex(self.fails(*command), rf"^octet: {command[0]}: {re.escape(output)}: is named by [a-z-]+ and by {option}, want a separate file")
        with open(q, "rb") as file:  # stdin
            result = subprocess.run([OCTET, "lower", "-", "--backend", "xnnpack", "--output", q], stdin=file, capture_output=True, text=True)
        self.assertIn("is named by model and by --output", result.stderr)
        self.assertEqual({name: os.stat(self.path(name)).st_mtime_ns for name in before}, {name: was.st_mtime_ns for name, was in before.items()})

    def test_terminals_get_no_control_characters(self):
        self.quantized_model()
        model = self.path("bad.pt2")
        with zipfile.ZipFile(self.path("q.pt2")) as source, zipfile.ZipFile(model, "w") as target:
            for entry in source.namelist():
                data = source.read(entry)
                if entry.endswith("models/model.json"):
                    text = json.dumps(json.loads(data))
                    self.assertIn('"x"', text)
                    data = text.replace('"x"', json.dumps("x" + BAD)).replace('"conv2d', '"conv2d' + json.dumps(BAD)[1:-1]).encode()
                target.writestr(entry, data)
        calls = [("inspect", model), ("inspect", model, "--json"), ("lower", model, "--backend", "xnnpack", "--output", self.path("bad.octet"), "--explain"),
                 ("inspect", self.path("bad.octet")), ("bench", self.path("bad.octet"), "--explain"), ("bench", self.path("bad.octet"), "--explain", "--json")]
        for call in calls:
            out, errors = self.octet(*call)
            shown = [c for c in out + errors if (ord(c) < 32 and c not in "\n\t") or c == "\u202e"]
            self.assertEqual(shown, [], call)
            if "--json" in call:
                json.loads(out)
        self.assertIn("\\x1b[31m\\x07\\u{202e}", self.octet("inspect", model)[0])

    def test_signals_leave_nothing(self):
        self.quantized_model()
        for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            for _ in range(4):
                process = subprocess.Popen([OCTET, "lower", self.path("q.pt2"), "--backend", "xnnpack", "--output", self.path("s.octet")], stderr=subprocess.PIPE, text=True)
                while process.poll() is None and not any(file.endswith(".tmp") for file in os.listdir(self.folder)):
                    time.sleep(0.0002)
                process.send_signal(name)
                _, errors = process.communicate(timeout=60)
                if process.returncode != 0:
                    self.assertEqual(process.returncode, -name)
                    self.assertIn("octet: interrupted", errors)
                self.assertEqual([file for file in os.listdir(self.folder) if ".tmp" in file], [])

    def test_standard_streams(self):
        self.quantized_model()
        self.octet("lower", self.path("q.pt2"), "--backend", "xnnpack", "--output", self.path("q.octet"))
        self.octet("run", self.path("q.octet"), "--inputs", self.path("x.pt"), "--outputs", self.path("y.pt"))
        # A whole way through pipes, and through redirected files.
        pipe = (f"{OCTET} quantize - --quantizer xnnpack --calibration calibration.pt --output - < model.pt2 2> /dev/null |"
                f"{OCTET} lower - --backend xnnpack --output - > piped.octet && cat x.pt | {OCTET} run piped.octet --inputs - --outputs - | cat > piped.pt")
        subprocess.run(["sh", "-e", "-c", pipe], check=True, cwd=self.folder)
        for name, other in (("q.octet", "piped.octet"), ("y.pt", "piped.pt")):
            with open(self.path(name), "rb") as a, open(self.path(other), "rb") as b:
                self.assertEqual(a.read(), b.read(), name)
        for arguments, part in (
            (("lower", "-", "--backend", "xnnpack", "--output", self.path("none.octet")), "/dev/stdin: is empty"),
            (("lower", self.path("q.pt2"), "--backend", "xnnpack", "--output", "-", "--explain"), "--explain: prints on stdout, where the output goes"),
            (("quantize", self.path("model.pt2"), "--quantizer", "xnnpack", "--calibration", self.path("calibration.pt"), "--output", "-", "--quantized-io"),
             "--quantized-io: prints on stdout"),
        ):
            with self.subTest(arguments[0]):
                result = subprocess.run([OCTET, *arguments], capture_output=True, text=True, input="")
                self.assertEqual((result.returncode, result.stdout), (1, ""))
                self.assertRegex(result.stderr, f"^octet: [^\n]*(?:{part})[^\n]*\n$")
        self.assertFalse(os.path.exists(self.path("none.octet")))

    def test_a_full_disk(self):
        self.quantized_model()
        disk = self.path("disk")
        os.mkdir(disk)
        inside = ["unshare", "--map-root-user", "--mount", "sh", "-c", f'mount -t tmpfs -o size=4k tmpfs {disk} && "$@"; code=$?; ls -A {disk}; exit $code', "sh"]
        if subprocess.run([*inside, "true"], capture_output=True).returncode != 0:
            self.skipTest("no tmpfs may be mounted here")
        data = ("--quantizer", "xnnpack", "--calibration", self.path("calibration.pt"))
        for command in (
            ("quantize", self.path("model.pt2"), *data, "--output", f"{disk}/q.pt2"),
            ("quantize", self.path("model.pt2"), *data, "--output", self.path("kept.pt2"), "--report", f"{disk}/r.html"),
            ("calibrate", self.path("model.pt2"), "--quantizer", "x86", "--calibration", self.path("calibration.pt"), "--state", f"{disk}/s.json"),
            ("lower", self.path("q.pt2"), "--backend", "onednn", "--output", f"{disk}/q.octet"),
            ("fuse", self.path("model.pt2"), "--output", f"{disk}/f.pt2"),
        ):
            with self.subTest(command[0]):
                result = subprocess.run([*inside, OCTET, *command], capture_output=True, text=True)
                self.assertEqual((result.returncode, result.stdout), (1, ""), result.stderr)  # nothing is left on the disk
                self.assertRegex(result.stderr.splitlines()[-1], "^octet: .*(No space left on device|the disk is full)")

    def test_quiet(self):
        self.quantized_model()
        command = ("quantize", self.path("model.pt2"), "--quantizer", "xnnpack", "--output", self.path("q.pt2"), "--quiet", "--calibration")
        self.assertEqual(self.octet(*command, self.path("calibration.pt")), ("", ""))
        constant = self.save("constant.pt", [(torch.zeros(1, 3, 32, 32),)])
        _, errors = self.octet(*command, constant)
        self.assertRegex(errors, "^warning: calibration: input 0 is 0 [^\n]*\n$")
        self.assertIn("cannot be read", self.fails(*command, self.path("none.pt")))

    def test_a_terminal_gets_a_bar_that_goes_away(self):
        self.small_model()
        data = self.save("many.pt", [(torch.randn(1, 3, 32, 32),) for _ in range(512)])
        command = [OCTET, "quantize", self.path("model.pt2"), "--quantizer", "x86", "--calibration", data, "--effort", "high", "--output", self.path("q.pt2")]
        master, slave = pty.openpty()
        text = b""
        with subprocess.Popen(command, stderr=slave) as process:
            os.close(slave)
            while True:
                try:
                    text += os.read(master, 4096)
                except OSError:  # the other end is closed
                    break
        os.close(master)
        self.assertEqual(process.returncode, 0)
        bars = re.findall(rb"\r\x1b\[K\[#*\.*\] [a-z-]+(?: [0-9]+/[0-9]+)?, ([0-9]+) %, 0:[0-9]{2} elapsed", text)
        self.assertTrue(bars, text)
        self.assertEqual(bars, sorted(bars, key=int))
        self.assertNotRegex(text, rb"elapsed[^\r]*\r?\n")

    def test_threads_follow_the_machine(self):
        self.quantized_model()
        self.octet("lower", self.path("q.pt2"), "--backend", "xnnpack", "--output", self.path("q.octet"))
        start = time.monotonic()
        _, errors = self.octet("run", self.path("q.octet"), "--inputs", self.path("x.pt"), "--outputs", self.path("y.pt"), "--threads", "1024")
        cpus = len(os.sched_getaffinity(0))
        self.assertIn("warning: threads: 1024 are wanted, and this process may use ", errors)
        self.assertLess(time.monotonic() - start, 30)
        one = {min(os.sched_getaffinity(0))}
        out = subprocess.run([OCTET, "bench", self.path("q.octet"), "--seconds", "0.01"], check=True, capture_output=True, text=True,
                             preexec_fn=lambda: os.sched_setaffinity(0, one)).stdout
        self.assertIn("on 1 thread;", out)
        bench = [OCTET, "bench", self.path("q.octet"), "--seconds", "0.01"]
        out = subprocess.run(bench, check=True, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}).stdout
        self.assertIn("on 1 thread;", out)
        self.assertGreaterEqual(cpus, 1)

    def test_scripts_show_progress_and_the_end_of_a_log(self):
        """tools/dev/progress.sh, as setup.sh and test.sh use it; on a terminal a line a second."""
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools/dev/progress.sh")
        script = f'set -eu; . {source}; watched "x: build" {self.path("log")} sh -c "$1"; echo done'
        master, slave = pty.openpty()
        build = "for i in 1 2; do echo \"[$i/2] cc\"; sleep 1.5; done"
        result = subprocess.run(["bash", "-c", script, "x", build], stdout=subprocess.PIPE, stderr=slave, text=True)
        os.close(slave)
        shown = b""
        with contextlib.suppress(OSError):  # at the end; a read may give a part
            while part := os.read(master, 4096):
                shown += part
        os.close(master)
        self.assertEqual((result.returncode, result.stdout), (0, "done\n"))
        self.assertRegex(shown, rb"\r\x1b\[Kx: build: \[1/2\] 1 s")
        self.assertRegex(shown, rb"\[2/2\] [23] s.*\r\x1b\[K$")
        result = subprocess.run(["bash", "-c", script, "x", "echo no such file; exit 3"], capture_output=True, text=True)
        self.assertEqual((result.returncode, result.stdout, result.stderr), (1, "", "no such file\n"))


if __name__ == "__main__":
    unittest.main()
