"""What tests of octet export share: files that onnx's checker takes, and ONNX Runtime's results, optimized and not, beside the graph interpreted."""
import collections

import onnx
import onnxruntime
import torch
from support import CommandTest, sqnr

NEAR = 40  # dB


class ExportTest(CommandTest):
    def exported(self, program="q.pt2", *options, name="q.onnx"):
        """The model of the file, which onnx's checker takes."""
        self.octet("export", self.path(program), "--onnx", self.path(name), *options)
        onnx.checker.check_model(self.path(name), full_check=True)
        return onnx.load(self.path(name))

    def session(self, name="q.onnx", is_optimized=True, target=None):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = 1
        if not is_optimized:
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        if target:
            options.optimized_model_filepath = self.path(target)
        return onnxruntime.InferenceSession(self.path(name), options, providers=["CPUExecutionProvider"])

    def run_onnx(self, inputs, **options):
        session = self.session(**options)
        names = [value.name for value in session.get_inputs()]
        return [torch.from_numpy(y) for y in session.run(None, {name: x.numpy() for name, x in zip(names, inputs)})]

    def optimized_ops(self, name="q.onnx"):
        self.session(name, target="optimized.onnx")
        return collections.Counter(node.op_type for node in onnx.load(self.path("optimized.onnx")).graph.node)

    def check_near(self, inputs, wanted=None, near=NEAR):
        """What ONNX Runtime makes of q.onnx, to the interpreter's outputs of q.pt2."""
        if wanted is None:
            self.save("x.pt", inputs)
            wanted = self.run_file("q.pt2")
        for is_optimized in (False, True):
            results = self.run_onnx(inputs, is_optimized=is_optimized)
            self.assertEqual(len(results), len(wanted))
            for want, got in zip(wanted, results):
                self.assertEqual(got.shape, want.shape)
                self.assertGreater(sqnr(want, got), near, f"optimized: {is_optimized}")
        return wanted

    def quantize(self, *options):
        self.octet("quantize", self.path("model.pt2"), "--output", self.path("q.pt2"), *options)

    def static(self, net, shape, quantizer):
        torch.manual_seed(0)
        net = net.requires_grad_(False).eval()
        x = torch.randn(shape)
        self.export(net, x)
        self.save("calibration.pt", [(torch.randn(shape),) for _ in range(4)])
        self.quantize("--quantizer", quantizer, "--calibration", self.path("calibration.pt"))
        return x

    def check_same(self, net, *inputs, others=(), **export):
        """A float network at the example and at other inputs, of the least opset."""
        net = net.requires_grad_(False).eval()
        self.export(net, *inputs, **export)
        model = self.exported("model.pt2")
        for given in (inputs, *others):
            want = net(*given)
            want = list(want) if isinstance(want, tuple) else [want]
            got = self.run_onnx(given)
            self.assertEqual(len(got), len(want))
            for k, (y, z) in enumerate(zip(want, got)):
                with self.subTest(output=k):
                    self.assertEqual((y.shape, y.dtype), (z.shape, z.dtype))
                    torch.testing.assert_close(z, y, rtol=2e-4, atol=2e-5)
        return collections.Counter(node.op_type for node in model.graph.node)
