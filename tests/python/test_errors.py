"""What a caller gave wrong: one line with stage, subject and message, in the caller's words."""

import os
import pickle
import subprocess
import sys
import tempfile
import unittest
import warnings

import octet
import torch
from octet._built_with import TORCH
from octet_runtime._error import plain_type_error
from package_test import PackageTest
from torch import nn

INTERRUPTED = """
import os, signal, sys, threading, time
import octet, torch
program = torch.export.load(sys.argv[1])
batches = [(torch.randn(1, 3, 32, 32),) for _ in range(2000)]
def interrupt():
    while "calibrating" not in open(sys.argv[2]).read():
        time.sleep(0.01)
    time.sleep(0.2)  # after mkdtemp: Python's own code leaves the folder when it is interrupted there
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt, daemon=True).start()
open(sys.argv[2], "w").write("")
prepared = octet.prepare(program, "xnnpack")
open(sys.argv[2], "w").write("calibrating")
try:
    octet.calibrate(prepared, batches)
    print("not interrupted")
except KeyboardInterrupt:
    print("interrupted")
# Also after an interrupt between the creation of a folder and its use, the handler removes it.
print("left", [name for name in os.listdir(os.environ["TMPDIR"]) if name.startswith("octet-")])
print(octet.quantize(program, "xnnpack", calibration=batches[:2]))
"""


class TopTwo(nn.Module):
    def forward(self, x):
        return torch.topk(x, 2)  # a type that torch.export.save does not know


class Named(nn.Module):
    def forward(self, x):
        return x + 1


class Errors(PackageTest):
    def test_arguments_of_other_types_are_told_in_plain_words(self):
        for call, said in [
            (lambda: octet.load(3), "load: path: got int, want str or os.PathLike"),
            (lambda: octet.load("m.octet", threads="2"), "threads: got '2', want int"),
            (lambda: octet.load("m.octet", memory_limit=-1), "memory_limit: got -1, want int from 0"),
            (lambda: octet.load(), "load: path: is missing"),
            (lambda: octet.load("m.octet", 2), "load: got 2 arguments by position, want at most 1"),
            (lambda: octet.allow_op(1), "allow_op: name: got int, want str"),
        ]:
            with self.subTest(said), self.assertRaises(TypeError) as caught:
                call()
            self.assertEqual(str(caught.exception), said)

    def test_types_that_may_fit_are_not_blamed_first(self):
        text = "run(): incompatible function arguments. The following argument types are supported:\n    1. run(%s) -> None\n\nInvoked with types: %s"
        for signature, given, said in [
            ("config: collections.abc.Mapping, data: torch.Tensor, steps: int", "dict, my.Tensor2, str", "run: steps: got str, want int"),
            ("data: torch.Tensor, *args", "str", "run: got (str), want run(data: torch.Tensor, *args)"),
        ]:
            with self.subTest(said):
                self.assertEqual(plain_type_error(text % (signature, given)), said)

    def test_options_of_the_command_become_arguments(self):
        for text, said in [
            ("2 layers left out, --report FILE.json lists them", "2 layers left out, report.save(...) lists them"),
            ("give --library LIB.so or --calibration DATA.pt", "give octet.load_library or calibration=..."),
        ]:
            self.assertEqual(octet._messages.as_python(text), said)

    def refuses(self, call, start):
        with self.subTest(start):
            self.check(call, start)

    def check(self, call, start):
        with self.assertRaises(octet.Error) as caught:
            call()
        error = caught.exception
        self.assertTrue(str(error).startswith(start), f"{error}\nwant {start}")
        self.assertNotIn("\n", str(error))
        self.assertNotIn(tempfile.gettempdir() + "/octet-", str(error))
        self.assertEqual(str(error), ": ".join(filter(None, [error.stage, error.subject, error.message])))
        twin = pickle.loads(pickle.dumps(error))
        self.assertEqual((twin.stage, twin.subject, twin.message), (error.stage, error.subject, error.message))

    def test_names_in_them_are_short_and_printable(self):
        name = "\x1b[31m\u202ename\n" * 100000
        for error in (octet.Error("inputs", name, "is not there"), octet.Error("inputs", "x", name)):
            self.assertLess(len(str(error)), 5000)
            self.assertTrue(str(error).isprintable())
            self.assertEqual(str(pickle.loads(pickle.dumps(error))), str(error))
        model = octet.lower(torch.export.export(Named(), (torch.randn(3),)), backend="reference")
        with self.assertRaises(octet.Error) as caught:
            model(**{name: torch.randn(3)})
        self.assertTrue(str(caught.exception).isprintable())

    def test_programs_and_quantizers(self):
        program, batches, x = self.small_program()
        quantize = lambda *a, **k: lambda: octet.quantize(*a, **k)  # noqa: E731
        self.refuses(quantize(7, "x86"), "quantize: model: got int, want an ExportedProgram, a torch.nn.Module")
        self.refuses(quantize("absent.pt2", "x86", calibration=batches), "pt2: absent.pt2: ")
        self.refuses(quantize(program, "x87", calibration=batches), 'quantizer: "x87": not in this build, want embedding')
        self.refuses(quantize(program, {"nothing": 1}, calibration=batches), "quantizer: the quantizer: ")
        self.refuses(quantize(program, {"nothing": {1}}, calibration=batches), "quantize: the quantizer: is not JSON")
        self.refuses(quantize(program, "x86"), "quantize: the program: static quantization needs data, got none; give calibration=... or state=...")
        self.refuses(quantize(program, "x86", calibration=batches, config={"op": 1}), "quantizer: config: ")
        self.refuses(quantize(program, "x86", passes=["round"]), "quantize: ")
        self.refuses(quantize(program, "x86", calibration=batches, effort=3), "quantize: effort: got \"3\", want ")
        self.refuses(quantize(program, "x86", calibration=batches, passes=["none such"]), "quantize: ")
        only_relu = torch.export.export(nn.ReLU(), (x,))
        self.refuses(quantize(only_relu, "x86", calibration=[x]), "quantize: the program: quantizer \"x86\" finds nothing to quantize")
        self.refuses(quantize(nn.ReLU(), "x86", calibration=iter([x])), "quantize: example_inputs: are missing")
        self.refuses(quantize(program, "x86", example_inputs=(x,)), "quantize: example_inputs: go with a module")
        training = torch.export.export(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).train(), (torch.randn(2, 4),))
        self.refuses(quantize(training, "x86", calibration=[torch.randn(2, 4)]), "prepare: ")

    def test_choices_of_words(self):
        program, batches, x = self.small_program()
        for name, value in [("mode", "statics"), ("fold_bn", "on"), ("compat", "torch"), ("effort", "highest"), ("training_mode", "no")]:
            self.refuses(lambda: octet.quantize(program, "x86", calibration=batches, **{name: value}), f"quantize: {name}: got \"{value}\", want ")

    def test_numbers(self):
        program, batches, _ = self.small_program()
        for name, value, said in [("weight_bits", "4", "got '4', want int"), ("hold_out", -3, "is -3, want at least 0"),
                                  ("max_batches", -1, "is -1, want at least 1")]:
            self.refuses(lambda: octet.quantize(program, "x86", calibration=batches, **{name: value}), f"quantize: {name}: {said}")

    def test_batches(self):
        program, batches, x = self.small_program()
        data = lambda batches: lambda: octet.quantize(program, "x86", calibration=batches)  # noqa: E731
        self.refuses(data([]), "inputs: calibration: has no batch")
        self.refuses(data(7), "inputs: calibration: got int, want an iterable of batches or a path")
        self.refuses(data(x), "inputs: calibration: got a Tensor, want a list of batches")
        self.refuses(data([(x, 3)]), "inputs: calibration, batch 0: got (Tensor, int), want (x)")
        self.refuses(data([(x,), {"y": x}]), "inputs: calibration, batch 1: got (y=Tensor), want (x)")
        self.refuses(data([(object(),)]), "inputs: calibration, batch 0: holds a object, want tensors")
        self.refuses(data([(torch.full_like(x, float("nan")),)]), "calibrate: ")
        self.refuses(data([(x[:, :2],)]), "calibrate: ")
        self.refuses(data("absent.pt"), "inputs: absent.pt: ")

    def test_what_a_generator_raises_is_its_own(self):
        program, _, _ = self.small_program()

        def broken():
            yield (torch.randn(1, 3, 32, 32),)
            raise ZeroDivisionError("of the loader")

        with self.assertRaisesRegex(ZeroDivisionError, "of the loader"):
            octet.quantize(program, "x86", calibration=broken())

    def test_lowering(self):
        program, batches, x = self.small_program()
        self.refuses(lambda: octet.lower(program, backend="cuda"), "backend: cuda: ")
        self.refuses(lambda: octet.lower(program, ["onednn", "cuda"]), "backend: cuda: ")
        self.refuses(lambda: octet.lower(program, []), 'backend: "": has an empty name, want e.g. acme_npu,xnnpack')
        self.refuses(lambda: octet.lower(program, ["onednn", "onednn"]), "lower: onednn: is named twice")
        self.refuses(lambda: octet.lower(program, ["onednn", "reference"]), "lower: reference: is the fallback, not one of several")
        for threads in (0, 2**40):
            self.refuses(lambda: octet.lower(program, "onednn", threads=threads), f"lower: threads: is {threads}, want 1 to 1024")
        self.refuses(lambda: octet.lower(program, "onednn", fallback="any"), "lower: fallback: got \"any\", want ")
        self.refuses(lambda: octet.lower(3, "onednn"), "quantize: model: got int")
        self.refuses(lambda: octet.load("absent.octet"), "artifact: absent.octet: ")
        named = torch.export.export(TopTwo(), (torch.ones(4),))
        self.refuses(lambda: octet.lower(named, "onednn"), "quantize: model: torch.export.save cannot write it (")
        model = octet.lower(program, "onednn")
        self.refuses(lambda: model(x.to("meta")), "session: input 0 (x): ")
        self.refuses(lambda: model(x.to_sparse()), "session: input 0 (x): ")
        self.refuses(lambda: model.save(self.path("none/m.octet")), "artifact: ")
        q = octet.quantize(program, "x86", calibration=batches)
        self.refuses(lambda: q.save(self.path("none/q.pt2")), "pt2: ")

    def test_warnings_are_python_s(self):
        program, batches, x = self.small_program()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            octet.quantize(program, "x86", calibration=[batches[0]] * 4)
        texts = [str(warning.message) for warning in caught if "batches" in str(warning.message)]
        self.assertEqual(len(texts), 1, [str(w.message) for w in caught])
        self.assertEqual([w.filename for w in caught if str(w.message) == texts[0]], [__file__])

    def test_ctrl_c_ends_the_work_and_no_more(self):
        self.small_model()
        os.makedirs(self.path("tmp"))
        open(self.path("stage"), "w").close()
        result = subprocess.run(
            [sys.executable, "-B", "-c", INTERRUPTED, self.path("model.pt2"), self.path("stage")],
            capture_output=True, text=True, timeout=300, env={**os.environ, "TMPDIR": self.path("tmp")},
        )
        self.assertEqual(result.returncode, 0, result.stderr[-2000:])
        self.assertIn("interrupted\nleft []", result.stdout)
        self.assertIn("octet.Quantized(", result.stdout)

    def test_another_torch_is_an_import_error(self):
        want = ".".join(TORCH.split(".")[:2])
        script = "import importlib.metadata as m; v = m.version; m.version = lambda n: %r if n == 'torch' else v(n); import octet"
        result = subprocess.run([sys.executable, "-B", "-c", script % "2.6.0+cpu"], capture_output=True, text=True)
        line = result.stderr.splitlines()[-1]
        self.assertTrue(line.startswith(f"ImportError: octet: torch: got 2.6.0+cpu, want {want}, "), line)
        self.assertIn(f"pip install 'torch=={want}.*'", line)


if __name__ == "__main__":
    unittest.main()
