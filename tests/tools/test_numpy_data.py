"""NumPy's .npy and .npz as data: the results of the same tensors in torch.save files, and one line for what does not fit."""
import unittest
import zipfile

import numpy
import torch
from torch import nn

from support import CommandTest


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x, mask):
        return self.linear(x) * mask


class Optional(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x, mask=None, factor=2, bias=None):
        y = self.linear(x if mask is None else x * mask) * factor
        return y if bias is None else y + bias


class NumpyData(CommandTest):
    def setUp(self):
        super().setUp()
        torch.manual_seed(0)
        self.images = torch.randn(8, 3, 32, 32)
        self.x, self.mask = torch.randn(6, 4), torch.randint(2, (6, 3)).bool()

    def small(self):
        self.small_model()
        self.save("calibration.pt", [(image[None],) for image in self.images])

    def two(self, **options):
        self.export(Two(), self.x[:2], self.mask[:2], **options)
        self.save("calibration.pt", [(self.x[i:i + 2], self.mask[i:i + 2]) for i in range(0, 6, 2)])

    def arrays(self, name="data.npz", save=numpy.savez, *unnamed, **named):
        save(self.path(name), *map(numpy.asarray, unnamed), **{key: numpy.asarray(value) for key, value in named.items()})
        return self.path(name)

    def assert_as_torch(self, data):
        files = []
        for each in (self.path("calibration.pt"), data):
            self.octet("quantize", self.path("model.pt2"), "--quantizer", "xnnpack", "--calibration", each, "--output", self.path("q.pt2"))
            with open(self.path("q.pt2"), "rb") as file:
                files.append(file.read())
        self.assertEqual(*files)

    def test_a_missing_array_is_named(self):
        self.two()
        data = self.arrays("one.npy", numpy.save, self.x)
        self.assertRegex(self.refused(data), "^has 1 arrays, want 2: ")

    def refused(self, data):
        line = self.fails("quantize", self.path("model.pt2"), "--quantizer", "xnnpack", "--calibration", data, "--output", self.path("q.pt2"))
        start = f"octet: inputs: {data}: "
        self.assertTrue(line.startswith(start), line)
        return line[len(start):]

    def test_samples_are_divided_into_batches_of_the_program(self):
        self.small()
        numpy.save(self.path("images.npy"), self.images.numpy())
        self.assert_as_torch(self.path("images.npy"))
        numpy.save(self.path("fortran.npy"), numpy.asfortranarray(self.images.numpy()))
        self.assert_as_torch(self.path("fortran.npy"))
        numpy.save(self.path("batches.npy"), self.images[:, None].numpy())
        self.assert_as_torch(self.path("batches.npy"))

    def test_arrays_are_matched_by_name_or_in_order(self):
        self.two()
        for name, save in (("stored.npz", numpy.savez), ("packed.npz", numpy.savez_compressed)):
            with self.subTest(name):
                self.assert_as_torch(self.arrays(name, save, mask=self.mask, x=self.x))
                self.assert_as_torch(self.arrays(name, save, self.x, self.mask))

    def test_inputs_that_are_none_or_numbers_need_no_array(self):
        bias = torch.randn(6, 3)
        self.export(Optional(), self.x[:2], None, 2, bias[:2])
        self.save("calibration.pt", [(self.x[i:i + 2], None, 2, bias[i:i + 2]) for i in range(0, 6, 2)])
        self.assert_as_torch(self.arrays(bias=bias, x=self.x))
        self.assert_as_torch(self.arrays("unnamed.npz", numpy.savez, self.x, bias))
        self.octet("lower", self.path("q.pt2"), "--backend", "reference", "--output", self.path("q.octet"))
        self.save("x.pt", (self.x[:2], None, 2, bias[:2]))
        self.arrays("x.npz", bias=bias[:2], x=self.x[:2])
        for program in ("model.pt2", "q.pt2", "q.octet"):
            self.assertTrue(torch.equal(self.run_file(program, "x.npz")[0], self.run_file(program, "x.pt")[0]))

    def test_an_open_batch_takes_the_rest(self):
        batch = torch.export.Dim("batch", min=1, max=64)
        self.two(dynamic_shapes={"x": {0: batch}, "mask": {0: batch}})
        self.save("calibration.pt", [(self.x[i:i + 2], self.mask[i:i + 2]) for i in (0, 2, 4)][:2] + [(self.x[4:5], self.mask[4:5])])
        self.assert_as_torch(self.arrays(x=self.x[:5], mask=self.mask[:5]))

    def test_training_takes_targets(self):
        self.export(nn.Sequential(nn.Linear(4, 3)), self.x[:2])
        target = torch.arange(6) % 3
        files = []
        for data in (self.save("train.pt", [(self.x[i:i + 2], target[i:i + 2]) for i in range(0, 6, 2)]), self.arrays("train.npz", numpy.savez, self.x, target)):
            self.octet("qat", self.path("model.pt2"), "--quantizer", "xnnpack", "--train", data, "--epochs", "1", "--output", self.path("q.pt2"))
            with open(self.path("q.pt2"), "rb") as file:
                files.append(file.read())
        self.assertEqual(*files)

    def test_other_commands_take_them(self):
        self.small()
        data = self.arrays("images.npz", numpy.savez, self.images)
        classes = numpy.arange(8, dtype=numpy.int64)
        numpy.save(self.path("classes.npy"), classes)
        self.octet("calibrate", self.path("model.pt2"), "--quantizer", "xnnpack", "--calibration", data, "--state", self.path("state.json"))
        _, text = self.octet("quantize", self.path("model.pt2"), "--quantizer", "xnnpack", "--state", self.path("state.json"),
                             "--evaluate", data, "--labels", self.path("classes.npy"), "--output", self.path("q.pt2"))
        self.assertIn("top-1", text)
        self.octet("compare", self.path("model.pt2"), self.path("q.pt2"), "--inputs", data)
        self.octet("lower", self.path("q.pt2"), "--backend", "reference", "--output", self.path("q.octet"))
        numpy.save(self.path("x.npy"), self.images[:1].numpy())
        self.save("x.pt", (self.images[:1],))
        for program in ("model.pt2", "q.pt2", "q.octet"):
            self.assertTrue(torch.equal(self.run_file(program, "x.npy")[0], self.run_file(program, "x.pt")[0]))
        line = self.fails("compare", self.path("q.octet"), self.path("q.octet"), "--inputs", data)
        self.assertTrue(line.endswith("holds NumPy arrays, want a torch.save file of a list of input tuples"), line)

    def test_a_call_takes_named_arrays(self):
        self.two()
        self.save("x.pt", (self.x[:2], self.mask[:2]))
        self.arrays("x.npz", mask=self.mask[:2], x=self.x[:2])
        self.octet("lower", self.path("model.pt2"), "--backend", "reference", "--output", self.path("m.octet"))
        for program in ("model.pt2", "m.octet"):
            self.assertTrue(torch.equal(self.run_file(program, "x.npz")[0], self.run_file(program, "x.pt")[0]))

    def test_all_dtypes(self):
        for dtype in ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "?"):
            with self.subTest(dtype):
                array = numpy.arange(12).reshape(3, 4).astype(dtype)
                self.export(nn.Identity(), torch.from_numpy(array))
                numpy.save(self.path("x.npy"), array)
                y, = self.run_file("model.pt2", "x.npy")
                self.assertTrue(torch.equal(y, torch.from_numpy(array)))

    def test_what_does_not_fit_is_refused(self):
        self.two()
        x, mask = self.x, self.mask
        for arrays, said in [
            ({"x": x}, "holds the arrays x, want x, mask; name them after the inputs, or give them in order: np.savez(file, a, b)"),
            ({"a": x, "b": mask}, "holds the arrays a, b, want x, mask; "),
            ({"x": x[:5], "mask": mask[:5]}, 'array "x" has 5 samples, want a multiple of 2, the program\'s batch size; '),
            ({"x": x, "mask": mask[:4]}, 'array "mask" has 4 samples, want 6 samples, like the first array'),
            ({"x": x[:0], "mask": mask[:0]}, 'array "x" has 0 samples, want at least 1'),
            ({"x": x[0], "mask": mask}, 'array "x" has rank 1, want 2, that of %x, or one more for the batches'),
            ({"x": x.to(torch.complex64), "mask": mask}, "x.npy: has dtype <c8, want one of <f2, <f4, "),
        ]:
            with self.subTest(said):
                self.assertIn(said, self.fails("quantize", self.path("model.pt2"), "--quantizer", "xnnpack", "--calibration", self.arrays(**arrays),
                                               "--output", self.path("q.pt2")))
        for array, dtype in ((x.numpy().astype(">f4"), ">f4"), (numpy.array(["a"]), "<U1"), (numpy.array([None]), "|O")):
            numpy.save(self.path("odd.npy"), array, allow_pickle=True)
            self.assertTrue(self.refused(self.path("odd.npy")).startswith(f"has dtype {dtype}, want one of "))

    def test_damage_is_one_line(self):
        self.two()
        numpy.save(self.path("x.npy"), self.x.numpy())
        for file in (self.path("x.npy"), self.arrays("stored.npz", numpy.savez, x=self.x, mask=self.mask),
                     self.arrays("packed.npz", numpy.savez_compressed, x=self.x, mask=self.mask)):
            with open(file, "rb") as source:
                data = source.read()
            cut = self.path("cut.npz")
            for size in [6, 9, 30, 60, 127, 140, 200, len(data) - 30, len(data) - 1]:
                with open(cut, "wb") as target:
                    target.write(data[:size])
                self.refused(cut)
        data = bytearray(data)
        data[len(data) // 4] ^= 255
        with open(self.path("packed.npz"), "wb") as target:
            target.write(data)
        self.refused(self.path("packed.npz"))
        with zipfile.ZipFile(self.path("other.npz"), "w") as target:
            target.writestr("x.npy", data)
            target.writestr("notes.txt", "hello")
        self.assertRegex(self.refused(self.path("other.npz")), 'damaged|holds the member "notes.txt"')


if __name__ == "__main__":
    unittest.main()
