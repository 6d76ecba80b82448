"""What the command does when an allocation, a mapping, a write, an fsync or a rename fails: it ends with 0 or 1 and then with
one line, its outputs are whole or as they were, and nothing else stays. Allocations are a sample (OCTET_FAULTS of each kind,
all else as often as it occurs), the same in each run.
"""
import concurrent.futures
import os
import random
import re
import shutil
import subprocess
import unittest

import torch
from torch import nn

OCTET, SHIM, SCRATCH = (os.environ[name] for name in ("OCTET", "OCTET_FAULT_SHIM", "OCTET_SCRATCH"))
SAMPLE = int(os.environ.get("OCTET_FAULTS", "16"))

# Where the process may end by a signal: functions of LibTorch that are on the stack then, and why.
ABORTS_OF_LIBTORCH = {
}


class CommandFaults(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        shutil.rmtree(SCRATCH, ignore_errors=True)
        os.makedirs(SCRATCH)
        torch.manual_seed(0)
        net = nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 3)).eval()
        data = [(torch.randn(1, 2, 4, 4),) for _ in range(2)]
        with torch.no_grad():
            torch.export.save(torch.export.export(net, data[0]), cls.path("model.pt2"))
        torch.save(data, cls.path("data.pt"))
        torch.save(data[0], cls.path("x.pt"))
        for arguments in (["quantize", cls.path("model.pt2"), "--quantizer", "x86", "--calibration", cls.path("data.pt"),
                           "--output", cls.path("int8.pt2")],
                          ["lower", cls.path("int8.pt2"), "--backend", "onednn", "--output", cls.path("model.octet")]):
            subprocess.run([OCTET, *arguments], check=True, capture_output=True)

    @staticmethod
    def path(name):
        return os.path.join(SCRATCH, name)

    def run_with(self, fault, arguments, outputs, number=0):
        """Runs the command in a new folder that has the outputs of an earlier run. Returns code, stderr, report, files."""
        folder = self.path(f"run_{number}")
        os.makedirs(folder)
        for name in outputs:
            with open(os.path.join(folder, name), "w") as file:
                file.write("before")
        report = self.path(f"report_{number}")
        environment = dict(os.environ, LD_PRELOAD=SHIM, OCTET_FAULT=fault, OCTET_FAULT_REPORT=report, OMP_NUM_THREADS="1")
        result = subprocess.run([OCTET, *arguments, "--quiet"], cwd=folder, env=environment, capture_output=True, text=True,
                                errors="replace", timeout=120)
        files = {}
        for name in os.listdir(folder):
            with open(os.path.join(folder, name), "rb") as file:
                files[name] = re.sub(rb'"\d+\.\d s"|nonce\W+\d+', b'', file.read())  # differs with the time that a run takes
        with open(report, errors="replace") as file:
            text = file.read()
        os.remove(report)
        shutil.rmtree(folder)
        return result.returncode, result.stderr, text, files

    def fault_of(self, fault, arguments, outputs, whole, number):
        """What is wrong with a run, "" when nothing is, and whether the fault was reached."""
        code, errors, report, files = self.run_with(fault, arguments, outputs, number)
        is_hit = report.startswith("hit")
        lines = errors.splitlines()
        faults = []
        if code not in (0, 1):
            if code < 0 and any(function in report for function in ABORTS_OF_LIBTORCH):
                return "", is_hit
            faults.append(f"code {code}")
        if code == 1 and (not lines or not re.match(r"octet: [a-z0-9]+: .", lines[-1]) or sum(line.startswith("octet: ") for line in lines) != 1):
            faults.append("not one line with octet and a stage")
        if sorted(files) != sorted(outputs):
            faults.append(f"files {sorted(files)}")
        for name in outputs:
            if files.get(name) != whole[name] and (code == 0 or files.get(name) != b"before"):
                faults.append(f"{name} is neither whole nor as before")
        return (f"{fault}: {'; '.join(faults)}\n{errors[-500:]}\n{report[:1500]}" if faults else ""), is_hit

    def check(self, arguments, outputs):
        _, _, report, whole = self.run_with("alloc:0", arguments, outputs)
        _, _, _, again = self.run_with("alloc:0", arguments, outputs)
        self.assertEqual(whole, again, "the outputs of two runs differ, and so prove nothing")
        chosen = []
        for kind in ("alloc", "own", "map", "write", "sync", "rename"):
            code, errors, report, _ = self.run_with(f"{kind}:0", arguments, outputs)
            self.assertEqual(code, 0, errors)
            count = int(re.search(r"calls (\d+)", report)[1])
            rng = random.Random(count)
            if kind not in ("alloc", "own"):
                numbers = range(1, count + 1)
            else:
                numbers = sorted(rng.sample(range(1, count + 1), min(SAMPLE, count)))
            for number in numbers:
                chosen.append(f"{kind}:{number}")
                if kind != "map":
                    chosen.append(f"{kind}:{number}+")
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            results = list(pool.map(lambda item: self.fault_of(item[1], arguments, outputs, whole, item[0] + 1),
                                    enumerate(chosen)))
        self.assertGreater(sum(is_hit for _, is_hit in results), len(chosen) // 2)
        faults = [text for text, _ in results if text]
        self.assertEqual(len(faults), 0, f"{len(faults)} of {len(chosen)}:\n" + "\n".join(faults[:5]))

    def test_quantize(self):
        self.check(["quantize", self.path("model.pt2"), "--quantizer", "x86", "--calibration", self.path("data.pt"),
                    "--evaluate", self.path("data.pt"), "--output", "int8.pt2", "--report", "report.html"], ["int8.pt2", "report.html"])

    def test_lower(self):
        self.check(["lower", self.path("int8.pt2"), "--backend", "onednn", "--output", "model.octet"], ["model.octet"])

    def test_run(self):
        self.check(["run", self.path("model.octet"), "--inputs", self.path("x.pt"), "--outputs", "y.pt"], ["y.pt"])


if __name__ == "__main__":
    unittest.main()
