"""What a user can do wrong: each gives one line that says where, what and what to do, exit code 1, and leaves no half-written file."""
import json
import os
import unittest
import zipfile

import torch

from support import CommandTest


class BadInput(CommandTest):
    def setUp(self):
        super().setUp()
        self.small_model()

    def tearDown(self):
        left = [name for name in os.listdir(self.folder) if name.startswith("q.") or name.endswith((".part", ".tmp"))]
        self.assertEqual(left, [], "no half-written file")

    def quantize(self, model="model.pt2", calibration="calibration.pt", quantizer="xnnpack"):
        return self.fails("quantize", self.path(model), "--quantizer", quantizer, "--calibration", self.path(calibration), "--output", self.path("q.pt2"))

    def assert_line(self, line, *parts):
        for part in parts:
            self.assertIn(part, line)

    def rewrite(self, change, name="broken.pt2"):
        """A copy of the model with model.json changed."""
        with zipfile.ZipFile(self.path("model.pt2")) as source, zipfile.ZipFile(self.path(name), "w") as target:
            for entry in source.namelist():
                data = source.read(entry)
                if entry.endswith("models/model.json"):
                    data = change(json.loads(data))
                    data = json.dumps(data).encode() if not isinstance(data, bytes) else data
                if data is not None:
                    target.writestr(entry, data)
        return name

    def test_missing_file(self):
        self.assert_line(self.quantize(model="absent.pt2"), "octet: pt2: ", "absent.pt2")

    def test_not_a_zip(self):
        with open(self.path("text.pt2"), "w") as file:
            file.write("hello")
        self.assert_line(self.quantize(model="text.pt2"), "octet: pt2: ", "text.pt2")

    def test_truncated_archive(self):
        with open(self.path("model.pt2"), "rb") as file:
            data = file.read()
        for share in (0.1, 0.5, 0.99):
            with open(self.path("cut.pt2"), "wb") as file:
                file.write(data[: int(len(data) * share)])
            self.assert_line(self.quantize(model="cut.pt2"), "octet: pt2: ", "cut.pt2")

    def test_wrong_schema_version(self):
        def change(model):
            model["schema_version"]["major"] = 99
            return model
        self.assert_line(self.quantize(model=self.rewrite(change)), "octet: pt2: ", "99", "want 8")

    def test_model_json_is_not_json(self):
        self.assert_line(self.quantize(model=self.rewrite(lambda model: b"{\"graph_module\": ")), "octet: pt2: ", "broken.pt2")

    def test_unknown_op(self):
        def change(model):
            model["graph_module"]["graph"]["nodes"][0]["target"] = "torch.ops.acme.frobnicate.default"
            return model
        self.assert_line(self.quantize(model=self.rewrite(change)), "acme.frobnicate")

    def test_missing_weights(self):
        with zipfile.ZipFile(self.path("model.pt2")) as source, zipfile.ZipFile(self.path("bare.pt2"), "w") as target:
            for entry in source.namelist():
                if not entry.endswith("weight_0"):
                    target.writestr(entry, source.read(entry))
        self.assert_line(self.quantize(model="bare.pt2"), "octet: pt2: ", "bare.pt2", "weight_0")

    def with_config(self, rows, *options, quantizer="xnnpack"):
        with open(self.path("rows.json"), "w") as file:
            json.dump(rows, file)
        return self.fails("quantize", self.path("model.pt2"), "--quantizer", quantizer, "--config", self.path("rows.json"), *options,
                          "--calibration", self.path("calibration.pt"), "--output", self.path("q.pt2"))

    def test_settings_of_what_the_model_lacks(self):
        for rows, message in (
            ({"module_name": {"projekt": None}}, 'module_name "projekt" is not a module of the model, the closest: project, '),
            ({"module_name_regex": {"stem[.]9": None}}, 'module_name_regex "stem[.]9" does not match the whole path of any module of the model, the closest: '),
            ({"module_type": {"torch.nn.LSTM": None}}, 'module_type "torch.nn.LSTM" is not the type of any module of the model, the closest: '),
            ({"op_type": {"aten.conv2": None}}, 'op_type "aten.conv2" is not an op, the closest: aten.conv2d.default, '),
            ({"call_index": {"head": {"linear": {"1": None}}}},
             'call_index 1 of linear in module "head": the module calls the op 1 time, want an index of 0 .. 0'),
        ):
            key, value = next(iter(rows.items()))
            place = f"octet: quantizer: {self.path('rows.json')}: /{key}"
            while value is not None:
                name, value = next(iter(value.items()))
                place += f"/{name}"
            for quantizer in ("xnnpack", "x86", "embedding,xnnpack"):
                self.assert_line(self.with_config(rows, quantizer=quantizer), f"{place}: {message}")

    def test_settings_that_cannot_be_read(self):
        place = f"octet: quantizer: {self.path('rows.json')}: "
        self.assert_line(self.with_config({"module_name_regex": {"(stem": None}}),
                         place + '/module_name_regex/(stem: module_name_regex "(stem": not a regular expression (ECMAScript): a ( or ) is unmatched')
        self.assert_line(self.with_config({"call_index": {"head": {"linear": {"first": None}}}}),
                         place + '/call_index/head/linear/first: the key is not an index, want the number of the call as a string, "0" for the first')
        self.assert_line(self.with_config({"call_index": {"head": {"linear": {"0": None}}}}, "--compat", "torchao"),
                         place + "/call_index/head/linear/0: call_index: torchao's quantizers have no such setting; leave out --compat torchao")

    def test_calibration_of_wrong_shape(self):
        self.save("wrong.pt", [(torch.randn(1, 3, 16, 16),)])
        self.assert_line(self.quantize(calibration="wrong.pt"), "octet: calibrate: ", "1, 3, 16, 16", "1, 3, 32, 32")

    def test_calibration_of_wrong_dtype(self):
        self.save("wrong.pt", [(torch.zeros(1, 3, 32, 32, dtype=torch.int64),)])
        self.assert_line(self.quantize(calibration="wrong.pt"), "octet: calibrate: ", "i64", "f32")

    def test_calibration_with_too_many_inputs(self):
        self.save("wrong.pt", [(torch.randn(1, 3, 32, 32), torch.randn(1))])
        self.assert_line(self.quantize(calibration="wrong.pt"), "octet: calibrate: ", "got 2", "want 1")

    def test_empty_calibration(self):
        self.save("empty.pt", [])
        self.assert_line(self.quantize(calibration="empty.pt"), "empty.pt")

    def test_nan_and_inf_in_calibration(self):
        for value in (float("nan"), float("inf")):
            bad = torch.randn(1, 3, 32, 32)
            bad[0, 1, 2, 3] = value
            self.save("bad.pt", [(torch.randn(1, 3, 32, 32),), (bad,)])
            self.assert_line(self.quantize(calibration="bad.pt"), "octet: calibrate: ", "batch 1")

    def test_calibration_file_is_something_else(self):
        with open(self.path("junk.pt"), "wb") as file:
            file.write(os.urandom(1000))
        self.assert_line(self.quantize(calibration="junk.pt"), "junk.pt")

    def test_unwritable_output(self):
        line = self.fails("quantize", self.path("model.pt2"), "--quantizer", "xnnpack", "--calibration", self.path("calibration.pt"),
                          "--output", self.path("no/such/folder/q.pt2"))
        self.assert_line(line, "no/such/folder/q.pt2")

    def test_unwritable_reports_leave_nothing(self):
        os.makedirs(self.path("taken.json"))
        base = ["quantize", self.path("model.pt2"), "--quantizer", "xnnpack", "--calibration", self.path("calibration.pt"), "--output", self.path("q.pt2")]
        for option, name in (("--report", "no/such/r.html"), ("--report", "no/such/r.json"), ("--dump-annotations", "no/such/a.json"),
                             ("--dump-annotations", "taken.json")):
            with self.subTest(option=option, name=name):
                other = ["--report", self.path("r.json")] if option == "--dump-annotations" else ["--dump-annotations", self.path("a.json")]
                self.assert_line(self.fails(*base, *other, option, self.path(name)), "octet: output: ", name, "cannot be written")
                self.assertFalse([left for left in ("q.pt2", "r.json", "a.json") if os.path.exists(self.path(left))])

    def test_report_and_dump_in_one_file(self):
        line = self.fails("quantize", self.path("model.pt2"), "--quantizer", "xnnpack", "--calibration", self.path("calibration.pt"),
                          "--output", self.path("q.pt2"), "--report", self.path("r.json"), "--dump-annotations", self.path("r.json"))
        self.assert_line(line, "r.json", "--report", "--dump-annotations")

    def test_nothing_to_quantize(self):
        self.export(torch.nn.Sigmoid(), torch.randn(2, 3), name="sigmoid.pt2")
        self.save("data.pt", [(torch.randn(2, 3),)])
        self.assert_line(self.quantize(model="sigmoid.pt2", calibration="data.pt"), "sigmoid.pt2", "nothing")

    def test_unknown_quantizer(self):
        self.assert_line(self.quantize(quantizer="acme"), "acme", "xnnpack")

    def test_quantizer_file_with_a_wrong_value(self):
        with open(self.path("bad.json"), "w") as file:
            json.dump({"base": "xnnpack", "global": {"act_qmin": "low"}}, file)
        self.assert_line(self.quantize(quantizer=self.path("bad.json")), "bad.json", "/global/act_qmin", "low")

    def test_quantizer_lists_and_declared_backends_with_faults(self):
        def row(**fields):
            return {"specs": {"act": {"dtype": "int8", "observer": "histogram"}}, "patterns": [{"pattern": "linear(x, w, b?)", **fields}]}
        cases = {
            "xnnpack,": ["has an empty name"],
            "xnnpack,acme": ["\"acme\"", "embedding, kv_cache, qnnpack, x86, xnnpack"],
            "xnnpack,absent.json": ["absent.json", "cannot be read"],
        }
        files = {
            "slot.json": (row(inputs={"y": "act"}), ["/patterns/0/inputs/y", "not a slot", "one of x, w, b"]),
            "name.json": (row(inputs={"x": "atc"}), ["/patterns/0/inputs/x", "got \"atc\"", "one of act"]),
            "pattern.json": (row(pattern="linear(x", inputs={"x": "act"}), ["/patterns/0/pattern", "column 9"]),
            "later.json": ({**row(inputs={"x": "act"}), "opaque": {}}, ["/opaque", "got {}, want a list of parts"]),
            "compose.json": ({"compose": ["embedding", {"base": "xnnpack", "global": {"act_qmin": "low"}}]}, ["/compose/1/global/act_qmin", "low"]),
        }
        for name, (content, parts) in files.items():
            with open(self.path(name), "w") as file:
                json.dump(content, file)
            cases["embedding," + self.path(name)] = [name, *parts]
        for quantizer, parts in cases.items():
            with self.subTest(quantizer=quantizer):
                self.assert_line(self.quantize(quantizer=quantizer), "octet: quantizer: ", *parts)

    def test_option_that_the_quantizer_lacks(self):
        line = self.fails("quantize", self.path("model.pt2"), "--quantizer", "x86", "--per-tensor", "--calibration", self.path("calibration.pt"),
                          "--output", self.path("q.pt2"))
        self.assert_line(line, "octet: quantizer: x86", "is_per_channel")

    def test_reduced_range_of_no_activations(self):
        with open(self.path("npu.json"), "w") as file:
            json.dump({"name": "npu", "specs": {"act": {"dtype": "int8", "observer": "min_max"}},
                       "patterns": [{"pattern": "relu(x)", "inputs": {"x": "act"}}]}, file)
        for quantizer, options, message in (
                ("embedding", [], "octet: quantizer: embedding: got the option reduce_range, want one of its options"),
                ("xnnpack", ["--mode", "weight-only"], "octet: quantizer: reduce_range: got true together with is_weight_only, want one of them"),
                (self.path("npu.json"), [], "octet: quantizer: npu: got the option reduce_range, want one of its options: none, because its file defines everything; give its specs a narrower quant_min and quant_max")):
            with self.subTest(quantizer=quantizer):
                line = self.fails("quantize", self.path("model.pt2"), "--quantizer", quantizer, "--reduce-range", *options,
                                  "--output", self.path("q.pt2"))
                self.assert_line(line, message)

    def test_reduced_range_outside_of_a_setting(self):
        for options, start in (({"base": "x86", "reduce_range": True}, '"base": "x86", '), ({"reduce_range": True}, "")):
            with self.subTest(options=options):
                with open(self.path("options.json"), "w") as file:
                    json.dump(options, file)
                named = ["--quantizer", self.path("options.json")] if start else ["--quantizer", "x86", "--config", self.path("options.json")]
                line = self.fails("quantize", self.path("model.pt2"), *named, "--calibration", self.path("calibration.pt"), "--output", self.path("q.pt2"))
                self.assert_line(line, "/reduce_range: got true, want it within a setting, e.g. {" + start + '"global": {"reduce_range": true}}')

    def test_static_quantization_without_data(self):
        line = self.fails("quantize", self.path("model.pt2"), "--quantizer", "xnnpack", "--output", self.path("q.pt2"))
        self.assert_line(line, "--calibration")

    def test_options_of_weights_that_cannot_be(self):
        for options, message in (
                (["--weight-bits", "5"], "octet: quantizer: weight_bits: got 5, want 16, 8, 4, 3 or 2"),
                (["--group-size", "1"], "octet: quantizer: group_size: got 1, want 2 or more, or 0 for no groups"),
                (["--weight-bits", "4", "--group-size", "0", "--per-tensor"],
                 "octet: quantizer: weight_bits: 4-bit weights with one scale per tensor keep too little; want a group_size, or is_per_channel")):
            with self.subTest(options=options):
                line = self.fails("quantize", self.path("model.pt2"), "--quantizer", "xnnpack", "--mode", "weight-only", *options,
                                  "--output", self.path("q.pt2"))
                self.assert_line(line, message)

    def test_activations_of_bits_that_cannot_be(self):
        for options, message in (
                (["--activation-bits", "12"], "octet: quantizer: activation_bits: got 12, want 8 or 16"),
                (["--activation-bits", "16", "--mode", "dynamic"],
                 "octet: quantizer: activation_bits: got 16 together with is_dynamic, want one of them; 16 bits are static"),
                (["--activation-bits", "16", "--reduce-range"],
                 "octet: quantizer: activation_bits: got 16 together with reduce_range"),
                (["--weight-bits", "16"], "octet: quantizer: weight_bits: got 16 without activation_bits 16, want both")):
            with self.subTest(options=options):
                line = self.fails("quantize", self.path("model.pt2"), "--quantizer", "x86", *options, "--output", self.path("q.pt2"))
                self.assert_line(line, message)

    def test_x86_has_no_weights_alone_as_torchao_has_it(self):
        line = self.fails("quantize", self.path("model.pt2"), "--quantizer", "x86", "--mode", "weight-only", "--compat", "torchao",
                          "--output", self.path("q.pt2"))
        self.assert_line(line, "octet: quantizer: is_weight_only: torchao's X86InductorQuantizer has no weight-only mode; leave out --compat torchao")

    def test_run_with_inputs_of_wrong_shape(self):
        self.save("wrong.pt", (torch.randn(1, 3, 5, 5),))
        line = self.fails("run", self.path("model.pt2"), "--inputs", self.path("wrong.pt"), "--outputs", self.path("q.pt"))
        self.assert_line(line, "octet: run: ", "1, 3, 5, 5", "1, 3, 32, 32")

    def test_float_input_for_an_int8_program(self):
        self.octet("quantize", self.path("model.pt2"), "--quantizer", "xnnpack", "--calibration", self.path("calibration.pt"), "--quantized-io",
                   "--output", self.path("int8.pt2"))
        self.octet("lower", self.path("int8.pt2"), "--backend", "onednn", "--output", self.path("int8.octet"))
        for name, line in (("int8.pt2", "octet: run: input 0 (%x): got f32[1, 3, 32, 32], want i8[1, 3, 32, 32]; convert the input to that dtype"),
                           ("int8.octet", "octet: session: input 0 (x): got f32[1, 3, 32, 32], want i8[1, 3, 32, 32]; convert the input to that dtype")):
            self.assertEqual(self.fails("run", self.path(name), "--inputs", self.path("x.pt"), "--outputs", self.path("q.pt")), line)

    def test_integer_borders_that_cannot_be(self):
        net = torch.nn.Sequential(torch.nn.Sigmoid(), torch.nn.Linear(8, 8), torch.nn.Sigmoid())
        self.export(net, torch.randn(2, 8), name="sigmoids.pt2")
        self.save("data.pt", [(torch.randn(2, 8),)])
        base = ["quantize", self.path("sigmoids.pt2"), "--quantizer", "x86", "--calibration", self.path("data.pt"), "--output", self.path("q.pt2")]
        for options, parts in (
                (["--quantized-io"], ["octet: quantize: ", "sigmoids.pt2: --quantized-io: no input and no output of the program is quantized: ",
                                      "input 0 (%input) stays float: %sigmoid (aten.sigmoid.default) reads it in float; leave the option out"]),
                (["--quantized-inputs", "0"], ["octet: quantized-io: input 0 (%input): cannot be an integer: %sigmoid (aten.sigmoid.default) reads it"]),
                (["--quantized-outputs", "3"], ["octet: quantized-io: output 3: there is none, got index 3, want less than 1"])):
            with self.subTest(options=options):
                self.assert_line(self.fails(*base, *options), *parts)
        self.octet(*base, "--quantized-inputs", "first", code=2)
        self.octet(*base, "--quantized-io", "--reference", code=2)

    def test_damaged_octet_file(self):
        for name, data in (("short.octet", b"\x10"), ("huge.octet", b"\xff" * 64), ("junk.octet", (8).to_bytes(8, "little") + b"notjson!")):
            with open(self.path(name), "wb") as file:
                file.write(data)
            line = self.fails("run", self.path(name), "--inputs", self.path("x.pt"), "--outputs", self.path("q.pt"))
            self.assert_line(line, "octet: artifact: ", name)

    def test_file_of_unknown_kind(self):
        self.assert_line(self.fails("inspect", self.path("x.pt")), "x.pt", ".octet")


if __name__ == "__main__":
    unittest.main()
