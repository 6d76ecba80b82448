"""Programs that write into views of their tensors, quantized and lowered; and linear layers of the smallest sizes with scales at run time."""
import unittest

import torch
import torchao.quantization  # noqa: F401  registers the ops of its namespace for torch.export.load
from support import CommandTest, sqnr
from torch import nn

BACKENDS = {"xnnpack": "xnnpack", "x86": "onednn"}


class Writes(nn.Module):
    """A convolution, whose result `write` changes, and one that reads it."""

    def __init__(self, write):
        super().__init__()
        self.first, self.last, self.write = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 1), write

    def forward(self, x):
        return self.last(self.write(self.first(x)))


def scaled(y):
    y[:, :4] *= 0.25
    return y


def filled(y):
    y[:, 0] = 3
    return y


def chained(y):
    y.flatten(2)[:, 2:6].permute(1, 0, 2)[0].mul_(-2)
    return y


def parts(y):
    first, second = y.chunk(2, 1)
    second += first.relu_()
    return y


def read_before(y):
    kept = y.abs() + y
    y[:, 4:] = 0.5
    return y + kept


class Boxes(nn.Module):
    """The head of a YOLO: x and y in steps of a grid, width and height as factors of anchors, in place."""

    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Conv2d(3, 16, 3, stride=2), nn.Conv2d(16, 18, 1)
        self.register_buffer("grid", torch.stack(torch.meshgrid(torch.arange(7.0), torch.arange(7.0), indexing="xy"), -1))
        self.register_buffer("anchors", torch.tensor([[1.5, 2.0], [3.0, 1.0]]).view(1, 2, 1, 1, 2))

    def forward(self, x):
        y = self.head(torch.relu(self.body(x)))
        y = y.view(-1, 2, 9, 7, 7).permute(0, 1, 3, 4, 2).contiguous()
        y[..., 0:2] = (y[..., 0:2].sigmoid() * 2 - 0.5 + self.grid) * 2
        y[..., 2:4] = (y[..., 2:4].sigmoid() * 2) ** 2 * self.anchors
        return y.view(x.shape[0], -1, 9)


MODELS = {write.__name__: lambda write=write: Writes(write) for write in (scaled, filled, chained, parts, read_before)} | {"boxes": Boxes}


class OwnCopy(nn.Module):
    """A function of a tensor that is the program's own."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x + 1)


def cast_then_written(y):
    wide = y.double()
    y.mul_(0.1)
    return wide.float(), y * 1


def cast_written(y):
    wide = y.type_as(torch.zeros(1, dtype=torch.float64))
    wide[:, 0] = 3
    return wide.float(), y * 1


def contiguous_copy(y):
    last = y.permute(0, 2, 3, 1).contiguous()
    last[..., 0] = 3
    return last * 1, y * 1


def channels_last_copy(y):
    last = y.contiguous(memory_format=torch.channels_last)
    last[:, 0] = 3
    return last * 1, y * 1


def contiguous_view(y):
    same = y.contiguous()
    same[:, 0] = 3
    y[:, 1] = 4
    return same * 1, y * 1


def reshape_copy(y):
    flat = y.permute(0, 2, 3, 1).reshape(2, -1)
    flat.mul_(0.1)
    return flat * 1, y * 1


def reshape_view(y):
    rows = y.permute(0, 2, 3, 1).reshape(2, 6, 6, 3, 1)
    rows[..., 0, 0] = 3
    return rows * 1, y * 1


def flatten_view(y):
    rows = y.permute(0, 2, 3, 1).flatten(1, 2)
    part = rows[:, 2:]
    part.mul_(2)
    return rows * 1, part * 1, y * 1


def views_of_views(y):
    corner = y.view(2, -1)[:, :4]
    rows = y.flatten(2).permute(0, 2, 1)[:, :4]
    y.mul_(0.1)
    y[:, 0] = 7
    return corner * 1, rows * 1


def views_of_views_of_rows(y):
    rows = y.flatten(2).permute(0, 2, 1)[:, :4]
    y.mul_(0.1)
    return rows * 1, y * 1


OWN_COPIES = (cast_then_written, cast_written, contiguous_copy, channels_last_copy, contiguous_view, reshape_copy, reshape_view, flatten_view,
              views_of_views)


class ViewWrites(CommandTest):
    def quantize(self, *arguments):
        self.octet("quantize", self.path("model.pt2"), "--output", self.path("q.pt2"), *arguments)
        return torch.export.load(self.path("q.pt2")).module()

    def test_the_quantized_program_and_the_lowered_one_have_what_was_written(self):
        for name, make in MODELS.items():
            torch.manual_seed(0)
            net = make().requires_grad_(False).eval()
            batches = [(torch.randn(2, 3, 16, 16),) for _ in range(4)]
            self.export(net, *batches[0])
            self.save("calibration.pt", batches)
            self.save("x.pt", batches[0])
            want = net(*batches[0])
            for quantizer, backend in BACKENDS.items():
                with self.subTest(name, quantizer=quantizer):
                    module = self.quantize("--quantizer", quantizer, "--calibration", self.path("calibration.pt"))
                    got = module(*batches[0])
                    self.assertGreater(sqnr(want, got), 30)
                    self.octet("lower", self.path("q.pt2"), "--backend", backend, "--output", self.path("q.octet"))
                    self.assertGreater(sqnr(got, self.run_file("q.octet")[0]), 35)

    def test_lowered_float_programs_tell_views_from_copies(self):
        x = torch.randn(2, 3, 6, 6)
        self.save("x.pt", (x,))
        for function in OWN_COPIES:
            with self.subTest(function.__name__):
                self.export(OwnCopy(function), x)
                self.octet("lower", self.path("model.pt2"), "--backend", "reference", "--output", self.path("f.octet"))
                for want, got in zip(OwnCopy(function)(x), self.run_file("f.octet"), strict=True):
                    torch.testing.assert_close(got, want, rtol=0, atol=1e-5)

    def test_so_do_those_of_open_sizes(self):
        batch = torch.export.Dim("batch", min=2, max=64)
        x = torch.randn(5, 3, 6, 6)
        self.save("x.pt", (x,))
        for function in (cast_written, contiguous_copy, contiguous_view, views_of_views_of_rows):
            with self.subTest(function.__name__):
                self.export(OwnCopy(function), torch.randn(3, 3, 6, 6), dynamic_shapes=({0: batch},))
                self.octet("lower", self.path("model.pt2"), "--backend", "reference", "--output", self.path("f.octet"))
                for want, got in zip(OwnCopy(function)(x), self.run_file("f.octet"), strict=True):
                    torch.testing.assert_close(got, want, rtol=0, atol=1e-5)

    def test_the_smallest_linear_layers_run_in_pytorch_with_scales_at_run_time(self):
        for sizes, shape in (((1, 4), (3, 1)), ((1, 1), (3, 1)), ((4, 1), (3, 4)), ((1, 4), (1, 1)), ((8, 4), (1, 8)), ((1, 4), (1,)), ((8, 4), (8,)),
                             ((1, 4), (2, 3, 1)), ((1, 1), (1, 1, 1)), ((8, 1), (2, 1, 8))):
            torch.manual_seed(0)
            net = nn.Linear(*sizes).requires_grad_(False).eval()
            x = torch.randn(shape)
            self.export(net, x)
            self.save("x.pt", (x,))
            for quantizer, backend in BACKENDS.items():
                with self.subTest(sizes=sizes, shape=shape, quantizer=quantizer):
                    got = self.quantize("--quantizer", quantizer, "--mode", "dynamic")(x)
                    self.assertGreater(sqnr(net(x), got), 30)
                    self.assertEqual(got.shape, net(x).shape)
                    self.octet("lower", self.path("q.pt2"), "--backend", backend, "--output", self.path("q.octet"))
                    self.assertGreater(sqnr(got, self.run_file("q.octet")[0]), 60)

    def test_the_smallest_linear_layers_of_open_batches_run_in_pytorch(self):
        torch.manual_seed(0)
        linear = nn.Linear(1, 4).requires_grad_(False).eval()
        batch = torch.export.Dim("batch", min=1, max=64)
        self.export(linear, torch.randn(3, 1), dynamic_shapes=({0: batch},))
        module = self.quantize("--quantizer", "xnnpack", "--mode", "dynamic")
        for rows in (1, 5):
            x = torch.randn(rows, 1)
            self.assertGreater(sqnr(linear(x), module(x)), 30)


if __name__ == "__main__":
    unittest.main()
