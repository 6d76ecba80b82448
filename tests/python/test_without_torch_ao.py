"""Without torch.ao, which may leave torch: Octet's own ops of q/dq graphs, and programs that need neither."""

import os
import subprocess
import sys
import unittest

import octet
import torch
from package_test import PackageTest

HERE = os.path.dirname(os.path.abspath(__file__))
HOOK = os.path.join(HERE, "without_torch_ao")
SCRIPTS = "test_quantize test_steps".split()
OPS = """
import sys, torch, octet
assert "torch.ao.quantization.fx._decomposed" not in sys.modules
given, want = torch.load(sys.argv[1]), torch.load(sys.argv[2])
for name, arguments in given.items():
    op, overload = name.split(".")
    op = getattr(getattr(torch.ops.quantized_decomposed, op), overload)
    got = op(*arguments)
    meta = op(*[x.to("meta") if isinstance(x, torch.Tensor) else x for x in arguments])
    for one, other, shape in zip(*[x if isinstance(x, tuple) else (x,) for x in (got, want[name], meta)]):
        assert torch.equal(one, other), name
        assert shape.dtype == one.dtype and shape.shape == one.shape, name
program = torch.export.load(sys.argv[3])
torch.save(program.module()(torch.load(sys.argv[4])), sys.argv[5])
torch.export.export(program.module(), (torch.load(sys.argv[4]),)).run_decompositions()
"""
PLAIN = """
import sys, torch
torch.save(torch.export.load(sys.argv[1]).module()(torch.load(sys.argv[2])), sys.argv[3])
assert not {"octet", "torch.ao.quantization.fx._decomposed"} & set(sys.modules)
"""


class WithoutTorchAo(PackageTest):
    def run_without(self, *arguments):
        path = os.pathsep.join([HOOK, HERE, os.environ["PYTHONPATH"]])
        env = {**os.environ, "PYTHONPATH": path, "OCTET_SCRATCH": self.path("")}
        result = subprocess.run([sys.executable, "-B", *arguments], capture_output=True, text=True, env=env)
        self.assertEqual(result.returncode, 0, result.stderr[-3000:])
        return result.stderr

    def test_the_hook_hides_it(self):
        script = "import torch\ntry:\n  import torch.ao.quantization\nexcept ImportError: sys = 1\nelse: raise SystemExit(1)"
        self.run_without("-c", script)

    def test_the_packages_pass_their_tests(self):
        said = self.run_without("-m", "unittest", *SCRIPTS)
        self.assertRegex(said, r"Ran (?:[2-9]\d|\d{3,}) tests")

    def test_the_ops_are_those_of_torch(self):
        x = torch.linspace(-3, 3, 24).reshape(2, 3, 4)
        q = torch.arange(-12, 12, dtype=torch.int8).reshape(2, 3, 4)
        scales, zeros = torch.tensor([0.1, 0.2, 0.05]), torch.tensor([0, 3, -4])
        scale, zero = torch.tensor([0.03], dtype=torch.double), torch.tensor([5])
        rows = torch.full((2, 3, 1), 0.02, dtype=torch.double), torch.zeros(2, 3, 1, dtype=torch.int64)
        limits = (-128, 127, torch.int8)
        given = {
            "quantize_per_tensor.default": (x, 0.03, 5, *limits),
            "quantize_per_tensor.tensor": (x, scale, zero, *limits),
            "dequantize_per_tensor.default": (q, 0.03, 5, *limits),
            "dequantize_per_tensor.tensor": (q, scale, zero, *limits),
            "quantize_per_channel.default": (x, scales, zeros, 1, *limits),
            "dequantize_per_channel.default": (q, scales, zeros, 1, *limits),
            "choose_qparams.tensor": (x, -128, 127, 1e-6, torch.int8),
            "choose_qparams_symmetric.tensor": (x, -128, 127, 1e-6, torch.int8),
            "choose_qparams_per_token_asymmetric.default": (x, torch.int8),
            "quantize_per_token.default": (x, *rows, *limits),
            "dequantize_per_token.default": (q, *rows, *limits, torch.float32),
            "convert_element_type.no_fuse": (x, torch.float16),
        }
        want = {}
        for name, arguments in given.items():
            op, overload = name.split(".")
            want[name] = getattr(getattr(torch.ops.quantized_decomposed, op), overload)(*arguments)
        program, batches, image = self.small_program()
        q = octet.quantize(program, "x86", calibration=batches)
        q.save(self.path("q.pt2"))
        files = [self.save("given.pt", given), self.save("want.pt", want), self.path("q.pt2"), self.save("image.pt", image)]
        self.run_without("-c", OPS, *files, self.path("y.pt"))
        self.assertTrue(torch.equal(torch.load(self.path("y.pt")), q.module()(image)))

    def test_native_programs_need_torch_alone(self):
        program, batches, image = self.small_program()
        for quantizer, options in (
            ("x86", {}), ("xnnpack", {"per_tensor": True, "quantized_io": True}),
            ("xnnpack", {"mode": "weight-only", "calibration": None}),
        ):
            with self.subTest(quantizer, **options):
                options = {"calibration": batches, **options}
                want = octet.quantize(program, quantizer, **options)
                native = octet.quantize(program, quantizer, qdq="native", **options)
                self.assertEqual(native._graph.libraries(), {"aten"})
                self.assertEqual(native.report.data["quality"], {**want.report.data["quality"], "seconds": native.report.data["quality"].get("seconds")})
                native.save(self.path("native.pt2"))
                x = image
                if options.get("quantized_io"):
                    io = want.quantized_io["inputs"][0]
                    x = (torch.round(image / io["scale"]) + io["zero_point"]).clamp(-128, 127).to(torch.int8)
                self.run_without("-c", PLAIN, self.path("native.pt2"), self.save("x.pt", x), self.path("y.pt"))
                self.assertTrue(torch.equal(torch.load(self.path("y.pt")), want.module()(x)))

    def test_affine_programs_run_in_torchao_and_are_lowered(self):
        program, batches, image = self.small_program()
        for quantizer, options in (
            ("x86", {}), ("xnnpack", {}), ("xnnpack", {"per_tensor": True}),
            ("xnnpack", {"mode": "weight-only", "calibration": None}),
        ):
            with self.subTest(quantizer, **options):
                options = {"calibration": batches, **options}
                want = octet.quantize(program, quantizer, **options)
                affine = octet.quantize(program, quantizer, qdq="affine", **options)
                self.assertLessEqual(affine._graph.libraries(), {"aten", "torchao"})
                affine.save(self.path("affine.pt2"))
                run = ("import sys, torch, torchao\nx, y = sys.argv[2:]\n"
                       "torch.save(torch.export.load(sys.argv[1]).module()(torch.load(x)), y)")
                self.python(run, self.path("affine.pt2"), self.save("x.pt", image), self.path("y.pt"))
                self.assertTrue(torch.equal(torch.load(self.path("y.pt")), want.module()(image)))
                for backend in ("reference", "onednn"):
                    if backend in octet.backends():
                        self.assertTrue(torch.equal(octet.lower(affine, backend)(image), octet.lower(want, backend)(image)))

    def test_affine_leaves_the_ops_of_torchao(self):
        program, _, image = self.small_program()
        options = {"weight_bits": 4, "group_size": 8, "mode": "weight-only"}
        want, affine = octet.quantize(program, "xnnpack", **options), octet.quantize(program, "xnnpack", qdq="affine", **options)
        self.assertTrue(torch.equal(affine.module()(image), want.module()(image)))

    def test_what_has_no_native_form_is_refused(self):
        program, _, _ = self.small_program()
        with self.assertRaisesRegex(octet.Error, r"^convert: %choose_qparams\S* \(\S+\): has no form in ATen ops, .*; leave out qdq, or change mode or group_size$"):
            octet.quantize(program, "xnnpack", mode="dynamic", qdq="native")


if __name__ == "__main__":
    unittest.main()
