"""A lowered program takes and returns what the module did: containers, keywords, None; with torch and in octet_runtime without it."""

import collections
import dataclasses
import gc
import json
import unittest
import weakref

import octet
import torch
import transformers
from package_test import PackageTest
from torch.export import Dim
from torch.utils import _pytree as pytree

Pair = collections.namedtuple("Pair", "first second")
torch.utils._pytree._register_namedtuple(Pair, serialized_type_name="test_drop_in.Pair")


@dataclasses.dataclass
class Scores:
    logits: torch.Tensor
    hidden: torch.Tensor
    attention: torch.Tensor = None


torch.export.register_dataclass(Scores)  # without a name for files


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x, parts, mask=None, scale=2.0, *, bias=None):
        y = self.layer(x) * scale + parts["a"] + parts["more"][0]
        y = y if bias is None else y + bias
        return {
            "y": y,
            "none": mask,
            "list": [y + 1, (y * 2, 3)],
            "scores": Scores(y, x + 1),
            "pair": Pair(x * 2, parts["a"]),
        }


def inputs(batch=2):
    torch.manual_seed(0)
    x, a, b, c = (torch.randn(batch, 4) for _ in range(4))
    return (x, {"a": a, "more": [b]}, None), {"bias": c}


def exported():
    torch.manual_seed(1)
    args, kwargs = inputs()
    size = {0: Dim("batch", min=1, max=8)}
    shapes = {"x": size, "parts": {"a": size, "more": [size]}, "mask": None, "bias": size}
    return torch.export.export(Net().eval(), args, kwargs, dynamic_shapes=shapes)


# Runs a file without torch.
SCRIPT = """
import json, sys
import numpy as np
import octet_runtime
model = octet_runtime.load(sys.argv[1])
args = [np.ones((3, 4), np.float32) * i for i in range(4)]
x, a, b, c = args
y = model(x, {"a": a, "more": (b,)}, None, bias=c)
flat = model(x, a, b, None, c)
named = model(x=x, parts={"a": a, "more": [b]}, bias=c)
def form(value):
    if isinstance(value, dict): return {key: form(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)): return [type(value).__name__] + [form(each) for each in value]
    return value.tolist() if isinstance(value, np.ndarray) else value
assert "torch" not in sys.modules
print(json.dumps([form(y), form(flat), form(named), form(octet_runtime.Model.from_bytes(model.to_bytes()).duplicate()(x, {"a": a, "more": [b]}, bias=c))]))
"""


class DropIn(PackageTest):
    def same(self, got, want):
        self.assertEqual(pytree.tree_structure(got), pytree.tree_structure(want))
        for a, b in zip(pytree.tree_leaves(got), pytree.tree_leaves(want)):
            if isinstance(b, torch.Tensor):
                torch.testing.assert_close(a, b)
            else:
                self.assertEqual(a, b)

    def model(self):
        return octet.lower(exported(), "reference")

    def test_it_takes_and_returns_what_the_module_did(self):
        program, model = exported(), self.model()
        for batch in (2, 5):
            args, kwargs = inputs(batch)
            want = program.module()(*args, **kwargs)
            self.same(model(*args, **kwargs), want)
            self.assertIs(type(want["scores"]), Scores)
            # None may be left out, lists may be tuples, and all may be keywords
            self.same(model(args[0], {"a": args[1]["a"], "more": tuple(args[1]["more"])}, **kwargs), want)
            self.same(model(x=args[0], parts=collections.UserDict(args[1]), mask=None, **kwargs), want)
            # a flat list of all inputs, or of the tensors
            flat = [args[0], args[1]["a"], args[1]["more"][0]]
            self.same(model(*flat, None, kwargs["bias"]), want)
            self.same(model(*flat, kwargs["bias"]), want)

    def test_a_file_keeps_the_form_of_its_calls(self):
        program, model = exported(), self.model()
        model.save(self.path("m.octet"))
        args, kwargs = inputs()
        want = program.module()(*args, **kwargs)
        self.same(octet.load(self.path("m.octet"))(*args, **kwargs), want)
        torch.export.save(program, self.path("m.pt2"))
        self.octet("lower", self.path("m.pt2"), "--backend", "reference", "--output", self.path("c.octet"))
        self.assertEqual(self.bytes_of("c.octet"), self.bytes_of("m.octet"))
        self.octet("compare", self.path("m.pt2"), self.path("c.octet"), "--inputs", self.flat_data())

    def flat_data(self):
        args, kwargs = inputs()
        flat = (args[0], args[1]["a"], args[1]["more"][0], None, kwargs["bias"])
        torch.save([flat], self.path("data.pt"))
        return self.path("data.pt")

    def test_without_torch_types_become_dicts_and_tuples(self):
        self.model().save(self.path("m.octet"))
        y, flat, named, again = json.loads(self.python(SCRIPT, self.path("m.octet")))
        self.assertEqual(list(y), ["y", "none", "list", "scores", "pair"])
        self.assertEqual(y["none"], None)
        self.assertEqual(y["list"][0], "list")
        self.assertEqual(y["list"][2][0], "tuple")
        self.assertEqual(y["list"][2][2], 3)
        self.assertEqual(list(y["scores"]), ["logits", "hidden", "attention"])
        self.assertEqual(y["pair"][0], "tuple")
        for same in (flat, named, again):
            self.assertEqual(same, y)

    def test_other_calls_are_refused_in_one_line(self):
        model = self.model()
        (x, parts, _), kwargs = inputs()
        for call, said in [
            (lambda: model(x, parts), "session: inputs: bias is missing; want (x, parts, mask, bias)"),
            (lambda: model(x, [x, x], **kwargs), "session: inputs: parts is list, want {a, more}; want (x, parts, mask, bias)"),
            (lambda: model(x, {"a": x}, **kwargs), "session: inputs: parts lacks more; want (x, parts, mask, bias)"),
            (lambda: model(x, {**parts, "b": x}, **kwargs), "session: inputs: parts has b, which the program does not take; want (x, parts, mask, bias)"),
            (lambda: model(x, parts, x, **kwargs), "session: input 3: the program was exported with None for input 3, got a Tensor; export it with that"),
            (lambda: model(x, parts, None, 1.0, **kwargs), "session: inputs: got 4 positional arguments, want 3; want (x, parts, mask, bias)"),
            (lambda: model(x, parts, x=x, **kwargs), "session: inputs: x is given twice; want (x, parts, mask, bias)"),
        ]:
            with self.assertRaises(octet.Error) as raised:
                call()
            self.assertEqual(str(raised.exception), said)

    def test_a_damaged_spec_is_one_line(self):
        from octet_runtime._call_spec import CallSpec

        good = self.model().to_bytes()
        header = json.loads(good[8 : 8 + int.from_bytes(good[:8], "little")])
        text = header["__metadata__"]["call_spec"]
        self.assertEqual(len(CallSpec(text, 5, 7).flatten((), {"x": 1, "parts": {"a": 2, "more": [3]}, "bias": 4})), 5)
        spec = json.loads(text)
        damaged = ["", "{", "null", "[1]", "[" * 5000, text.replace("children_spec", "children")]
        damaged += [json.dumps({key: spec[key] for key in spec if key != gone}) for gone in spec]
        damaged += [json.dumps({**spec, "out": spec["in"]}), json.dumps({**spec, "inputs": []})]
        for text in damaged:
            with self.assertRaises(octet.Error) as raised:
                CallSpec(text, 5, 7)
            self.assertRegex(str(raised.exception), r"^artifact: call_spec: the form of its calls is damaged \([^\n]*\); lower the model again$")

    def test_a_file_does_not_decide_what_is_imported(self):
        from octet_runtime._call_spec import _imported_dataclass

        self.assertIs(_imported_dataclass(f"{__name__}.Scores"), Scores)
        for name in ("subprocess.Popen", "antigravity.geohash", "Scores", "", "os.path"):
            self.assertIsNone(_imported_dataclass(name), name)

    def test_one_output_in_a_tuple_stays_in_it(self):
        class One(torch.nn.Module):
            def forward(self, x):
                return (x * 2,)

        model = octet.lower(One().eval(), "reference", example_inputs=(torch.ones(2),))
        self.same(model(torch.ones(2)), (torch.full((2,), 2.0),))


class Data(PackageTest):
    """Batches of quantize()."""

    def batch(self, index):
        generator = torch.Generator().manual_seed(index)
        return torch.randn(1, 3, 32, 32, generator=generator)

    def test_streams_are_read_once_and_have_the_bits_of_a_list(self):
        program, _, _ = self.small_program()
        batches = [(self.batch(i),) for i in range(12)]
        want = octet.quantize(program, "x86", calibration=batches)
        read = []

        def endless():
            index = 0
            while True:
                read.append(index)
                yield self.batch(index)
                index += 1

        got = octet.quantize(program, "x86", calibration=endless(), max_batches=12)
        self.assertEqual(read, list(range(12)))
        want.save(self.path("want.pt2"))
        got.save(self.path("got.pt2"))
        self.assertEqual(self.bytes_of("got.pt2"), self.bytes_of("want.pt2"))
        self.assertEqual(got.report.quality, {**want.report.quality, "seconds": got.report.quality["seconds"]})
        prepared = octet.prepare(program, "x86")
        self.assertEqual(octet.calibrate(prepared, endless(), max_batches=12), 12)
        self.assertEqual(repr(prepared), "octet.Prepared(12 batches seen)")
        octet.convert(prepared).save(self.path("steps.pt2"))
        self.assertEqual(self.bytes_of("steps.pt2"), self.bytes_of("want.pt2"))

    def test_a_loader_with_labels(self):
        program, _, _ = self.small_program()
        images = torch.cat([self.batch(i) for i in range(10)])
        classes = torch.arange(10) % 3
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(images, classes))
        want = octet.quantize(program, "x86", calibration=[(x,) for x, _ in loader], labels=classes)
        for data in (loader, list(loader), [{"x": x, "labels": y} for x, y in loader]):
            got = octet.quantize(program, "x86", calibration=data, labels=True)
            for key in ("accuracy", "float_accuracy", "same_top1", "median_sqnr_db"):
                self.assertEqual(got.report.quality.get(key), want.report.quality.get(key), key)
        with self.assertRaisesRegex(octet.Error, r"^inputs: calibration, batch 0: has no labels; want \(input, labels\)"):
            octet.quantize(program, "x86", calibration=[(images[:1],)], labels=True)
        with self.assertRaisesRegex(octet.Error, "^inputs: calibration: has no batch"):
            octet.quantize(program, "x86", calibration=iter([]))

    def test_what_a_stream_raises_passes_through(self):
        program, _, _ = self.small_program()

        def broken():
            yield self.batch(0)
            raise OSError("the disk is gone")

        for options in ({}, {"effort": "high"}):
            with self.assertRaisesRegex(OSError, "the disk is gone"):
                octet.quantize(program, "x86", calibration=broken(), **options)
        octet.quantize(program, "x86", calibration=[self.batch(0)])

    def test_mappings_are_batches(self):
        args, kwargs = inputs()
        batch = collections.UserDict(x=args[0], parts=args[1], mask=None, **kwargs)
        for data in ([batch], iter([batch]), [(args[0], args[1]["a"], args[1]["more"][0], None, kwargs["bias"])]):
            q = octet.quantize(exported(), "x86", calibration=data)
            self.assertEqual(len(q.report.float_ops), len(octet.quantize(exported(), "x86", calibration=[batch]).report.float_ops))
        with self.assertRaisesRegex(octet.Error, "got .*, want .x, parts, mask, bias.; got labels, which the program does not take"):
            octet.quantize(exported(), "x86", calibration=[{**batch, "labels": 1}])

    def test_reports_name_no_temporary_file(self):
        program, batches, _ = self.small_program()
        q = octet.quantize(program, "x86", calibration=batches)
        self.assertNotIn("octet-", json.dumps(q.report.data))
        self.assertNotIn("/tmp", q.report.html())
        with self.assertRaisesRegex(octet.Error, "want a name that ends in .pt2; octet.export_onnx"):
            q.save(self.path("q.onnx"))


class Functions(PackageTest):
    def test_tune_takes_functions(self):
        program, batches, _ = self.small_program()
        models = []

        def validate(model):
            models.append(model)
            if isinstance(model, torch.nn.Module):
                model = model.eval()
            with torch.no_grad():
                return -float((model(*batches[0]) - program.module()(*batches[0])).abs().max())

        tuned = octet.tune(program, "x86", calibration=batches, validate=validate, min_metric=-10, trials=2)
        self.assertTrue(tuned.reached)
        self.assertEqual(len(models), 1 + len(tuned.trials))
        self.assertIsInstance(models[0], torch.nn.Module)
        self.assertLess(tuned.best["metric"], 0)
        self.assertTrue(tuned.report.nodes)
        tuned.report.save(self.path("tuned.html"))
        models.clear()
        octet.tune(program, "x86", calibration=batches, validate=validate, min_metric=-10, trials=2, backend="reference")
        self.assertIsInstance(models[0], octet.Model)

        def worst(reference, subject):
            return -float((reference - subject).abs().max())

        tuned = octet.tune(program, "x86", calibration=batches, metric=worst, min_metric=-10, trials=2)
        self.assertTrue(tuned.reached)
        q = octet.quantize(program, "x86", calibration=batches)
        self.assertTrue(octet.compare(program, q, batches, metric=worst).nodes)
        with self.assertRaisesRegex(octet.Error, "^compare: metric: python_worst was a function of an earlier call; give the function$"):
            octet.compare(program, q, batches, metric="python_worst")
        with self.assertRaisesRegex(octet.Error, "^tune: validate: returned None, want a number$"):
            octet.tune(program, "x86", calibration=batches, validate=lambda model: None, min_metric=0)
        known = weakref.ref(worst)
        del worst
        gc.collect()
        self.assertIsNone(known(), "nanobind reports what functions still hold at exit")

        def broken(*_):
            raise ZeroDivisionError("mine")

        for goal in ({"validate": broken}, {"metric": broken}):
            with self.assertRaisesRegex(ZeroDivisionError, "mine"):
                octet.tune(program, "x86", calibration=batches, min_metric=0, **goal)
        with self.assertRaisesRegex(octet.Error, "^tune: validate: is a metric, which min_metric bounds"):
            octet.tune(program, "x86", calibration=batches, validate=validate, min_sqnr=3)


class Transformers(PackageTest):
    def test_a_folder_of_transformers_needs_no_export(self):
        config = transformers.BertConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, vocab_size=50)
        net = transformers.BertForSequenceClassification(config).eval()
        net.save_pretrained(self.path("bert"))
        ones = torch.ones(2, 6, dtype=torch.long)
        batches = [transformers.BatchEncoding({"input_ids": torch.randint(50, (2, 6)), "attention_mask": ones}) for _ in range(3)]
        want = octet.quantize(net, "x86", calibration=batches).module()(**batches[0])
        q = octet.quantize("hf:" + self.path("bert"), "x86", calibration=[{**batch, "labels": ones[:, 0]} for batch in batches], labels=True)
        self.assertTrue(torch.equal(q.module()(**batches[0]).logits, want.logits))
        self.assertEqual(type(octet.lower(q, "reference")(**batches[0])), type(want))
        with self.assertRaisesRegex(octet.Error, "quantize: hf:none: none is not a folder, want what save_pretrained"):
            octet.quantize("hf:none", "x86", calibration=batches)
        with self.assertRaisesRegex(octet.Error, "quantize: example_inputs: are missing"):
            octet.quantize("hf:" + self.path("bert"), "x86", calibration=iter(batches))


if __name__ == "__main__":
    unittest.main()
