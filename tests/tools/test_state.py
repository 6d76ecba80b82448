"""Calibration apart from conversion: states of two shards merged, and a part of a state taken under another configuration."""
import json
import unittest

import torch

from support import CommandTest, sqnr


class State(CommandTest):
    def setUp(self):
        super().setUp()
        self.net, self.x = self.small_model()
        self.base = [self.path("model.pt2"), "--quantizer", "xnnpack"]
        self.calibrate("all.json", torch.load(self.path("calibration.pt")))

    def calibrate(self, name, batches, *options):
        self.save("part.pt", batches)
        self.octet("calibrate", *self.base, *options, "--calibration", self.path("part.pt"), "--state", self.path(name))
        return self.path(name)

    def quantize(self, *options):
        self.octet("quantize", *self.base, *options, "--output", self.path("q.pt2"))
        return self.run_file("q.pt2")[0]

    def without_project(self):
        with open(self.path("config.json"), "w") as file:
            json.dump({"module_name": {"project": None}}, file)
        return ["--config", self.path("config.json")]

    def test_two_shards_merge_into_what_one_pass_gives(self):
        batches = torch.load(self.path("calibration.pt"))
        first = self.calibrate("a.json", batches[:2])
        second = self.calibrate("b.json", batches[2:])
        merged = self.quantize("--state", f"{first},{second}")
        self.assertGreater(sqnr(self.quantize("--state", self.path("all.json")), merged), 40)
        self.assertGreater(sqnr(self.net(self.x), merged), 30)

    def test_a_config_at_convert_turns_parts_back_to_float(self):
        config = self.without_project()
        part = self.quantize(*config, "--state", self.path("all.json"))
        targets = [node["target"] for node in self.inspect("q.pt2")["nodes"]]
        self.assertEqual(targets.count("quantized_decomposed.dequantize_per_channel.default"), 3, "the weight of project stays float")
        self.assertTrue(torch.equal(part, self.quantize(*config, "--calibration", self.path("calibration.pt"))))

    def test_states_that_do_not_fit_are_refused(self):
        small = self.calibrate("small.json", torch.load(self.path("calibration.pt")), *self.without_project())
        for state, message in [
            (small, f"state: {small}: the state lacks %p_project_weight, which the per_channel_mse observer of [p_project_weight] needs; "
                    "calibrate with the same model and quantizer"),
            (self.path("config.json"), f"state: {self.path('config.json')}: no state of observers: [json.exception.out_of_range.403] key 'format' not found"),
            (self.path("all.json") + "," + self.path("none.json"), f"state: {self.path('none.json')}: cannot be read; check the path"),
            (",", 'quantize: --state: no file, got ",", want S.json or A.json,B.json'),
        ]:
            with self.subTest(state=state):
                self.assertEqual(self.fails("quantize", *self.base, "--state", state, "--output", self.path("q.pt2")), "octet: " + message)


if __name__ == "__main__":
    unittest.main()
