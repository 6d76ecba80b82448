"""octet.prepare_qat: a training loop in PyTorch beside that of the command, and what the module and convert() refuse."""

import copy
import importlib.util
import inspect
import os
import unittest

os.environ["OMP_NUM_THREADS"] = "1"  # small tensors, and equal sums

import octet  # noqa: E402
import torch  # noqa: E402
from package_test import PackageTest, SmallNet  # noqa: E402
from torch import nn  # noqa: E402


def labeled(count=1):
    generator = torch.Generator().manual_seed(1)
    return [(torch.randn(8, 3, 16, 16, generator=generator), torch.randint(10, (8,), generator=generator)) for _ in range(count)]


def small_program():
    torch.manual_seed(0)
    net = SmallNet().train()
    net.head = nn.Sequential(nn.Dropout(0.3), net.head)
    return torch.export.export(net, (torch.randn(8, 3, 16, 16),))


def linear_program():
    torch.manual_seed(0)
    return torch.export.export(nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 10)).train(), (torch.randn(8, 32),))


def optimizer_of(module, rate=0.05):
    groups = [{"params": [p for name, p in module.named_parameters() if not name.startswith("fake_quants.")]}]
    ranges = module.range_parameters()
    return torch.optim.SGD(groups + ([{"params": ranges}] if ranges else []), rate, momentum=0.9)


def step(module, optimizer, x, y):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(module(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()


class InPyTorch(PackageTest):
    def assert_same(self, a, b):
        """Two quantized programs have the same code and tensors."""
        a, b = a.exported_program(), b.exported_program()
        self.assertEqual(a.graph_module.code, b.graph_module.code)
        for name, tensor in {**a.state_dict, **a.constants}.items():
            self.assertTrue(torch.equal(tensor, {**b.state_dict, **b.constants}[name]), name)

    def trained(self, program=None, quantizer="xnnpack", x_y=None, steps=2, **options):
        module = octet.prepare_qat(program or small_program(), quantizer, **options)
        optimizer = optimizer_of(module)
        for _ in range(steps):
            step(module, optimizer, *(x_y or labeled()[0]))
        return module

    def test_a_loop_has_the_bits_of_the_command(self):
        (x, y), row = labeled()[0], (torch.randn(8, 32), torch.randint(10, (8,)))
        for quantizer, program, batch, epochs, options in [
            ("xnnpack", small_program(), (x, y), 4, {"freeze_after": 3}),
            ("x86", small_program(), (x, y), 2, {}),
            ("xnnpack", small_program(), (x, y), 2, {"per_tensor": True}),
            ("xnnpack", small_program(), (x, y), 4, {"learn_ranges": 1, "freeze_after": 3}),
            ("xnnpack", small_program(), (x, y), 2, {"compat": "torchao"}),
            ("xnnpack", linear_program(), row, 3, {"mode": "dynamic", "weight_bits": 4, "group_size": 8}),
        ]:
            with self.subTest(quantizer=quantizer, **options):
                file = self.path("c.pt")
                if os.path.exists(file):
                    os.remove(file)
                q = octet.qat(program, quantizer, train=[batch], epochs=epochs, lr=0.05, seed=4, checkpoint=file, **options)
                learns, freeze = options.pop("learn_ranges", None), options.pop("freeze_after", epochs)
                module = octet.prepare_qat(program, quantizer, learn_ranges=learns is not None, **options)
                optimizer = optimizer_of(module)
                torch.manual_seed(4)
                for epoch in range(epochs):
                    module.enable_observers(epoch < freeze)
                    module.enable_range_learning(learns is not None and learns <= epoch < freeze)
                    module.freeze_batch_norm(epoch >= freeze)
                    step(module, optimizer, *batch)
                tensors, learned = module.trained()
                saved = list(torch.load(file)[5:])  # after what concerns the run
                for name in sorted(tensors):
                    self.assertTrue(torch.equal(saved.pop(0), tensors[name]), name)
                for group in learned:
                    if "scale" in group:
                        self.assertTrue(torch.equal(saved.pop(0), group["scale"]))
                        self.assertTrue(torch.equal(saved.pop(0), group["zero_point"]))
                self.assertEqual(len(saved), 1)  # the ranges, as JSON
                self.assert_same(q, octet.convert(module))

    def test_norms_count_the_batches_that_they_train_on(self):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.BatchNorm1d(8), nn.Linear(8, 4)).train()
        x, y = torch.randn(6, 8), torch.randint(4, (6,))
        program = torch.export.export(net, (x,))
        module = octet.prepare_qat(program, "xnnpack")
        optimizer, counter = optimizer_of(module), module.get_buffer("2.num_batches_tracked")
        for prepare, counted in ((module.train, 1), (module.train, 2), (module.eval, 2), (module.freeze_batch_norm, 2), (module.train, 2)):
            prepare()
            step(module, optimizer, x, y)
            self.assertEqual(counter.item(), counted)
        q = octet.qat(program, "xnnpack", train=[(x, y)], epochs=3, freeze_after=2, lr=0.01)
        for quantized in (q, octet.convert(module)):
            self.assertNotIn("add_", quantized.exported_program().graph_module.code)
        counts = octet.qat(program, "xnnpack", train=[(x, y)], epochs=3, freeze_after=2, lr=0.01, compat="torchao").exported_program()
        self.assertIn("add_", counts.graph_module.code)
        self.assertEqual(counts.state_dict["2.num_batches_tracked"].item(), 2)

    def test_the_loop_for_other_devices_has_the_bits_of_the_command(self):
        for options in (
            {"freeze_after": 2, "schedule": "cosine"},
            {"learn_ranges": 1, "validation": labeled(2), "patience": 1},
            {"learn_ranges": 1, "weight_decay": 0.1},  # not of the ranges
        ):
            with self.subTest(options=list(options)):
                options = {"train": labeled(5), "epochs": 3, "lr": 0.05, "seed": 4, **options}
                given = inspect.signature(octet.qat).bind(small_program(), "xnnpack", **options)
                given.apply_defaults()
                got = octet._search._qat_on("cpu", given.arguments)
                self.assert_same(octet.qat(small_program(), "xnnpack", **options), got)
        given.arguments.update(optimizer="adamw", loss="distill", train=[(x,) for x, _ in labeled(3)], validation=None)
        octet._search._qat_on("cpu", given.arguments)

    def test_other_devices_are_refused_in_one_line(self):
        def qat(**options):
            return octet.qat(small_program(), "xnnpack", **{"train": labeled(), "device": "meta", **options})

        for call, said in [
            (lambda: qat(device="nothing"), "train: device: torch cannot use 'nothing': .*; give another"),
            (lambda: qat(checkpoint="c.pt"), 'train: checkpoint: applies to device="cpu"; leave it out, or train prepare_qat.. in your loop'),
            (lambda: qat(device="cpu", train=[labeled()[0][:1]]), "train: .*got 1 values, want 2: the model's inputs and then the target"),
        ]:
            with self.assertRaisesRegex(octet.Error, f"^{said}$"):
                call()
        self.small_model()
        line = self.fails("qat", self.path("model.pt2"), "--quantizer", "x86", "--train", "t.pt", "--output", self.path("q.pt2"), "--device", "cuda")
        self.assertEqual(line, 'octet: qat: --device: is cuda, but this command trains on the CPU; use `octet qat` of the Python package, or octet.qat(..., device="cuda")')

    def test_in_evaluation_mode_nothing_is_learned(self):
        module, (x, _) = self.trained(), labeled()[0]
        module.eval()
        before = {name: value.clone() for name, value in module.state_dict().items() if "tracked" not in name}
        with torch.no_grad():
            first, second = module(x * 9), module(x * 9)
        self.assertTrue(torch.equal(first, second))  # without dropout
        for name, value in before.items():
            self.assertTrue(torch.equal(value, module.state_dict()[name]), name)
        module.train()
        with torch.no_grad():
            self.assertFalse(torch.equal(module(x), module(x)))
        changed = [name for name in before if not torch.equal(before[name], module.state_dict()[name])]
        self.assertTrue({name.split(".")[-1] for name in changed} >= {"running_mean", "max", "scale"}, changed)
        q = octet.convert(module)
        with torch.no_grad():
            self.assertLess((module.eval()(x) - q.module()(x)).abs().max(), 0.05)

    def test_state_dicts_copies_and_pickles_convert_to_the_same_bits(self):
        for options in ({}, {"learn_ranges": True}, {"mode": "dynamic"}):
            with self.subTest(**options):
                module = self.trained(**options)
                want = octet.convert(module)
                again = octet.prepare_qat(small_program(), "xnnpack", **options)
                again.load_state_dict(module.state_dict())
                torch.save(module, self.path("module.pt"))
                for same in (again, copy.deepcopy(module), torch.load(self.path("module.pt"), weights_only=False), module):
                    self.assert_same(want, octet.convert(same))
        step(again, optimizer_of(again), *labeled()[0])
        self.assertEqual(set(small_program().state_dict), {n for n in module.state_dict() if not n.startswith("fake_quants.")})

    def test_the_module_needs_only_torch(self):
        module, (x, y) = self.trained(), labeled()[0]
        torch.save((module, x), self.path("module.pt"))
        module.eval()
        with torch.no_grad():
            torch.save(module(x), self.path("want.pt"))
        files = os.path.dirname(octet.__file__)
        self.python(
            "import sys, types, importlib.util, torch\n"
            "for name in ('octet', 'octet_runtime'): sys.modules[name] = types.ModuleType(name)\n"
            "def load(name, file):\n"
            "    spec = importlib.util.spec_from_file_location(name, file)\n"
            "    sys.modules[name] = importlib.util.module_from_spec(spec)\n"
            "    spec.loader.exec_module(sys.modules[name])\n"
            "load('octet_runtime._error', sys.argv[1] + '/../octet_runtime/_error.py')\n"
            "for name in ('_ranges', '_fake_quants', '_qat_module'): load('octet.' + name, f'{sys.argv[1]}/{name}.py')\n"
            "module, x = torch.load(sys.argv[2], weights_only=False)\n"
            "torch.set_num_threads(1)\n"
            "assert torch.equal(module.eval()(x), torch.load(sys.argv[3]))\n"
            "module.train()(x).sum().backward()\n",
            files, self.path("module.pt"), self.path("want.pt"),
        )

    def test_tied_weights_buffers_and_named_inputs(self):
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)
                self.second.weight = self.first.weight
                self.register_buffer("count", torch.zeros(()))

            def forward(self, x, *, scale):
                self.count.add_(1)
                return {"y": self.second(torch.relu(self.first(x * scale)))}

        program = torch.export.export(Net().train(), (torch.randn(4, 8),), {"scale": torch.ones(4, 1)})
        module = octet.prepare_qat(program, "xnnpack")
        self.assertIs(module.first.weight, module.second.weight)
        for at in range(3):
            out = module(torch.randn(4, 8), scale=torch.ones(4, 1))
            self.assertEqual(module.count.item(), at + 1)
        self.assertEqual(len(list(module.parameters())), 3)
        out["y"].sum().backward()
        self.assertGreater(module.first.weight.grad.abs().sum(), 0)
        q = octet.convert(module).exported_program()
        self.assertEqual({**q.state_dict, **q.constants}["count"].item(), 3)

    def test_quantizers_written_in_python(self):
        spec = octet.QuantizationSpec("int8", "fake_quantize(min_max)", qscheme="per_tensor_symmetric")

        class Linears(octet.Quantizer):
            def annotate(self, graph, annotations, report):
                for node in graph.nodes:
                    if node.is_op("aten.linear"):
                        annotations.annotate(node, inputs={node.input("input"): spec, node.input("weight"): self.weight})

        quantizer = Linears()
        quantizer.weight = spec
        module = self.trained(linear_program(), quantizer, (torch.randn(8, 32), torch.randint(10, (8,))))
        self.assertEqual(len(list(module.fake_quants.children())), 4)
        self.assertEqual(octet.convert(module).exported_program().graph_module.code.count("dequantize_per_tensor.default"), 4)
        quantizer.weight = octet.QuantizationSpec("int8", "fake_quantize(histogram)", qscheme="per_tensor_symmetric")
        with self.assertRaisesRegex(octet.Error, r"^prepare: %.*weight: its observer, fake_quantize\(histogram\), runs in octet.qat\(\) only; "):
            octet.prepare_qat(linear_program(), quantizer)

    @unittest.skipUnless(importlib.util.find_spec("executorch") and importlib.util.find_spec("torchao"), "wants torchao and ExecuTorch")
    def test_it_trains_as_torchao_does(self):
        from executorch.backends.xnnpack.quantizer import xnnpack_quantizer as xnnpack
        from torchao.quantization.pt2e import move_exported_model_to_eval, move_exported_model_to_train
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_qat_pt2e

        def quantizer():
            return xnnpack.XNNPACKQuantizer().set_global(xnnpack.get_symmetric_quantization_config(is_per_channel=True, is_qat=True))

        torch.manual_seed(0)
        net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10))
        program, (x, y) = torch.export.export(net.train(), (labeled()[0][0],)), labeled()[0]
        theirs = move_exported_model_to_train(prepare_qat_pt2e(program.module(), quantizer()))
        ours = octet.prepare_qat(program, "xnnpack", compat="torchao")
        optimizers = [torch.optim.SGD(module.parameters(), 0.05) for module in (theirs, ours)]
        for _ in range(3):
            want, got = (step(module, optimizer, x, y) for module, optimizer in zip((theirs, ours), optimizers))
            self.assertAlmostEqual(got, want, delta=1e-5)
        want = convert_pt2e(move_exported_model_to_eval(theirs))(x)
        self.assertLess((octet.convert(ours).module()(x) - want).abs().max(), 1e-4)
        with self.assertRaisesRegex(octet.Error, "^prepare: %.*: its observer, .*FusedMovingAvgObsFakeQuantize.*, runs in octet.qat"):
            octet.prepare_qat(program, quantizer())

    def test_wrong_inputs_are_said(self):
        module, (x, y) = octet.prepare_qat(small_program(), "xnnpack"), labeled()[0]
        for call, said in [
            (lambda: module(x[:4]), r"train: %x: got float32\[4, 3, 16, 16\], want float32\[8, 3, 16, 16\]; export with dynamic shapes"),
            (lambda: module(x.double()), r"train: %x: got float64\[8, 3, 16, 16\], want float32\[8, 3, 16, 16\]; convert the input to that dtype"),
            (lambda: module(x, x), r"train: inputs: got 2 inputs, want \(x\)"),
            (lambda: module(), r"train: inputs: got 0 inputs, want \(x\)"),
            (lambda: module("x"), r"train: %x: got a str, want float32\[8, 3, 16, 16\]"),
            (lambda: module(x * float("nan")), "train: %x: the observed values hold NaN or infinities; want finite numbers"),
        ]:
            with self.assertRaisesRegex(octet.Error, f"^{said}$"):
                call()
        module(x=x)
        before = {name: value.clone() for name, value in module.state_dict().items()}
        with self.assertRaisesRegex(octet.Error, "NaN"):
            module(x / 0)
        self.assertTrue(torch.equal(before["fake_quants.1.range.max"], module.state_dict()["fake_quants.1.range.max"]))

    def test_convert_refuses_what_is_not_trained_or_not_the_module(self):
        with self.assertRaisesRegex(octet.Error, "^convert: %.*: has no range yet; run the module on data in training mode first$"):
            octet.convert(octet.prepare_qat(small_program(), "xnnpack"))

        def broken(change, said):
            module = self.trained(steps=1)
            change(module)
            with self.assertRaisesRegex(octet.Error, f"^convert: {said}"):
                octet.convert(module)

        def resize(module):
            module.project.weight = nn.Parameter(torch.randn(3, 3))

        broken(lambda m: delattr(m.project, "bias"), "project.bias: is missing; train the module unchanged")
        broken(lambda m: delattr(m, "project"), "project.(weight|bias): is missing")
        broken(resize, r"project.weight: got float32\[3, 3\], want float32\[16, 16, 1, 1\]; train the module unchanged")
        broken(lambda m: m.double(), r".*got float64.*want float32")
        broken(lambda m: m.register_parameter("more", nn.Parameter(torch.ones(1))), "more: is not of the program; train the module unchanged")
        broken(lambda m: m.project.weight.data.fill_(float("nan")), "project.weight: holds NaN or infinities; lower the learning rate")
        broken(lambda m: getattr(m.fake_quants, "0").range.max.fill_(float("inf")), "%.*: its max holds NaN or infinities; check the data")
        module = octet.prepare_qat(small_program(), "xnnpack")
        state = self.trained(steps=1).state_dict()
        with self.assertRaisesRegex(RuntimeError, "Missing key"):
            module.load_state_dict({name: value for name, value in state.items() if name != "project.bias"})
        with self.assertRaisesRegex(RuntimeError, "Unexpected key"):
            module.load_state_dict(state | {"more": torch.ones(1)})
        with self.assertRaisesRegex(octet.Error, "pt2: .*none.pt2"):
            octet.prepare_qat(self.path("none.pt2"), "xnnpack")


if __name__ == "__main__":
    unittest.main()
