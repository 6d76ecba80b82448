"""octet_runtime: .octet files in a process without torch, with numpy arrays."""

import json
import os
import subprocess
import unittest

import torch
from package_test import PackageTest
from torch._higher_order_ops.while_loop import while_loop

BACKENDS = ["reference", "onednn", "xnnpack"]

# Runs a file and prints what the test compares; torch must not be there.
SCRIPT = """
import json, pickle, sys, threading
import numpy as np
import octet_runtime
file, x = sys.argv[1], np.load(sys.argv[2])
model = octet_runtime.load(file, threads=2)
y = model(x)
twin = pickle.loads(pickle.dumps(model))
strided = np.asfortranarray(x)
reversed_twice = np.ascontiguousarray(x[..., ::-1])[..., ::-1]
print(json.dumps({
    "torch": "torch" in sys.modules,
    "y": y.tolist(),
    "dtype": str(y.dtype),
    "info": [repr(model.inputs[0]), model.inputs[0].shape, model.outputs[0].dtype],
    "pickled": bool((twin(x) == y).all()),
    "by name": bool((model(**{model.inputs[0].name: x}) == y).all()),
    "strides": bool((model(strided) == y).all()) and bool((model(reversed_twice) == y).all()),
    "memory": bool((octet_runtime.Model.from_bytes(open(file, "rb").read())(x) == y).all()),
    "duplicate": bool((model.duplicate()(x) == y).all()),
    "same bytes": model.to_bytes() == open(file, "rb").read(),
    "read-only": bool((model(np.frombuffer(x.tobytes(), x.dtype).reshape(x.shape)) == y).all()),
    "kernels": len(model.kernels(x, runs=1)),
}))
"""

ERRORS = """
import sys
import numpy as np
import octet_runtime
model = octet_runtime.load(sys.argv[1])
x = np.zeros((1, 3, 32, 32), np.float32)
misaligned = np.frombuffer(b"." + x.tobytes(), np.uint8)[1:].view(np.float32).reshape(x.shape)
for call in [
    lambda: model(),
    lambda: model(x, x),
    lambda: model(x.astype(np.float64)),
    lambda: model(x[:, :2]),
    lambda: model([1.0]),
    lambda: model(None),
    lambda: model(y=x),
    lambda: model(x, x=x),
    lambda: model(misaligned),
    lambda: model(x.astype("c8")),
    lambda: model(np.array("text")),
    lambda: octet_runtime.load("absent.octet"),
    lambda: octet_runtime.load(sys.argv[1], threads=0),
    lambda: octet_runtime.load(sys.argv[1], cached_shapes=0),
    lambda: octet_runtime.Model.from_bytes(b"nothing"),
    lambda: model.save("/absent folder/m.octet"),
]:
    try:
        call()
        print("no error")
    except octet_runtime.Error as error:
        assert "\\n" not in str(error) and str(error).startswith(error.stage + ": ")
        assert error.message in str(error) and error.subject in str(error)
        print(error)
"""


INTERRUPT = """
import os, signal, sys, threading
import numpy as np
import octet_runtime
model = octet_runtime.load(sys.argv[1])
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    model(np.ones(3, np.float32))
except KeyboardInterrupt:
    print("interrupted")
"""


class Endless(torch.nn.Module):
    def forward(self, x):
        return while_loop(lambda x: x.sum() < 1e30, lambda x: (x * 1.0,), (x,))


class Runtime(PackageTest):
    def test_runs_without_torch_as_the_command_does(self):
        import numpy

        x = self.lowered_files(*BACKENDS)
        numpy.save(self.path("x.npy"), x.numpy())
        for backend in BACKENDS:
            with self.subTest(backend):
                told = json.loads(self.python(SCRIPT, self.path(backend + ".octet"), self.path("x.npy")))
                expected = self.run_file(backend + ".octet")[0]
                self.assertTrue(torch.equal(torch.tensor(told["y"]), expected))
                self.assertFalse(told["torch"])
                self.assertEqual(told["info"], ["x: float32[1, 3, 32, 32]", [1, 3, 32, 32], "float32"])
                self.assertGreater(told["kernels"], 0)
                for what in ["pickled", "by name", "strides", "memory", "duplicate", "same bytes", "read-only"]:
                    self.assertTrue(told[what], what)

    def test_errors_are_one_line(self):
        self.lowered_files("reference")
        lines = self.python(ERRORS, self.path("reference.octet")).splitlines()
        wanted = [
            "session: input 0 (x): is missing, want 1 inputs",
            "session: inputs: got 2, want 1",
            "session: input 0 (x): got f64[1, 3, 32, 32], want f32[1, 3, 32, 32]",
            "session: input 0 (x): got f32[1, 2, 32, 32], want f32[1, 3, 32, 32]",
            "session: input 0 (x): got list, want a numpy array or a dense torch tensor",
            "session: input 0 (x): got NoneType, want a numpy array",
            "session: y: is not an input, want one of (x: float32[1, 3, 32, 32])",
            "session: x: is given twice",
            "session: input 0 (x): starts within an element",
            "session: input 0 (x): got c64[1, 3, 32, 32], want f32",
            "session: input 0 (x): got ndarray, want",
            "artifact: absent.octet: cannot be opened",
            "session: threads: is 0, want 1 to 1024, or None for all CPUs",
            "session: cached_shapes: is 0, want at least 1",
            "artifact: memory: ",
            "artifact: /absent folder/m.octet: ",
        ]
        self.assertEqual(len(lines), len(wanted), lines)
        for line, start in zip(lines, wanted):
            self.assertTrue(line.startswith(start), f"{line}\nwant {start}")

    def test_an_endless_loop_can_be_interrupted(self):
        torch.export.save(torch.export.export(Endless(), (torch.ones(3),)), self.path("endless.pt2"))
        self.octet("lower", self.path("endless.pt2"), "--backend", "reference", "--output", self.path("endless.octet"))
        self.assertEqual(self.python(INTERRUPT, self.path("endless.octet")), "interrupted\n")

    def test_the_module_is_linked_to_no_libtorch(self):
        folder = os.path.join(os.environ["OCTET_BUILD"], "python/octet_runtime")
        [module] = [name for name in os.listdir(folder) if name.startswith("_runtime.") and name.endswith(".so")]
        listed = subprocess.run(["ldd", os.path.join(folder, module)], capture_output=True, text=True).stdout
        self.assertNotIn("torch", listed)
        self.assertNotIn("dnnl", listed)
        self.assertNotIn("XNNPACK", listed)


if __name__ == "__main__":
    unittest.main()
