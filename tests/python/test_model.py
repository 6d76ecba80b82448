"""octet.Model beside torch: tensors in and out without copies, threads, forks, memory."""

import gc
import multiprocessing
import os
import pickle
import threading
import unittest

import numpy
import octet
import torch
from package_test import PackageTest
from support import Function
from torch import nn


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def in_fork(model, path, x, queue):
    own = octet.load(path, threads=2)
    queue.put((model(x), model.warnings, own(x), own.warnings))


class Doubled(torch.utils.data.Dataset):
    """Runs the model within a DataLoader's workers."""

    def __init__(self, model, xs):
        self.model, self.xs = model, xs

    def __len__(self):
        return len(self.xs)

    def __getitem__(self, index):
        return self.model(self.xs[index])


class Cache(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x):
        self.total.add_(x)
        return self.total * 2


class Marked(nn.Module):
    """A buffer and a parameter that are the imaginary part of a conjugate."""

    def __init__(self, z):
        super().__init__()
        self.register_buffer("sign", z.conj().imag)
        self.weight = nn.Parameter(z.conj().imag, requires_grad=False)

    def forward(self, x):
        return x * self.weight + self.sign


class Types(nn.Module):
    """Several inputs and outputs, of several dtypes."""

    def forward(self, x, mask, index):
        return torch.where(mask, x, -x), index + 1, mask, x.to(torch.bfloat16)


class Models(PackageTest):
    def model(self, net, *example, backend="reference", threads=1, **options):
        with torch.no_grad():
            program = torch.export.export(net.eval(), example, **options)
        return octet.lower(program, backend=backend, threads=threads)

    def small(self, backend="onednn", threads=2):
        x = self.lowered_files(backend)
        return octet.load(self.path(backend + ".octet"), threads=threads), x

    def test_torch_and_numpy_give_the_same_bits(self):
        model, x = self.small()
        y = model(x)
        self.assertIsInstance(y, torch.Tensor)
        self.assertTrue(torch.equal(y, self.run_file("onednn.octet")[0]))
        z = model(x.numpy())
        self.assertIsInstance(z, numpy.ndarray)
        self.assertTrue((z == y.numpy()).all())
        # Channels-last, a parameter, and a view are as good.
        self.assertTrue(torch.equal(model(x.to(memory_format=torch.channels_last)), y))
        self.assertTrue(torch.equal(model(nn.Parameter(x)), y))
        self.assertTrue(torch.equal(model(torch.cat([x, x])[1:]), y))

    def test_tensors_with_the_conjugate_or_negative_bit(self):
        z = torch.randn(2, 3, dtype=torch.complex64)
        model = self.model(Function(lambda x: x + 1), torch.randn(2, 3))
        for x in (z.conj().imag, z.conj().imag.requires_grad_(), z.conj().imag.t().contiguous().t(), torch._neg_view(z.real)):
            self.assertTrue(torch.equal(model(x), x.detach().clone() + 1))
        self.assertTrue(z.conj().imag.is_neg())
        net = Marked(z)
        x = torch.randn(2, 3)
        self.assertTrue(torch.equal(self.model(net, x)(x), net(x)))
        self.assertTrue(net.sign.is_neg() and net.weight.is_neg())
        steps = torch.stft(torch.randn(400), 64, window=torch.ones(64), return_complex=True).conj()
        model = self.model(Function(lambda x: x * 2), steps.imag.clone())
        self.assertTrue(torch.equal(model(steps.imag), steps.imag.clone() * 2))

    def test_tensors_without_elements_in_memory_are_refused(self):
        from torch._subclasses import FakeTensorMode

        x = torch.randn(2, 3)
        model = self.model(Function(lambda x: x + 1), x)
        with FakeTensorMode() as mode:
            fake = mode.from_tensor(x)
        for given in (fake, x.to("meta"), x.to_sparse(), torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)):
            with self.subTest(type(given)), self.assertRaises(octet.Error):
                model(given)

    def test_limits(self):
        loop = torch._higher_order_ops.while_loop
        model = self.model(Function(lambda n, x: loop(lambda n, x: n < 3, lambda n, x: (n + 1, x * 2), (n, x))), torch.tensor(0), torch.randn(4))
        inputs = torch.tensor(-2), torch.randn(4)
        model(*inputs)
        limited = octet.Model.from_bytes(model.to_bytes(), loop_limit=4)
        for twin in (limited, limited.duplicate(), pickle.loads(pickle.dumps(limited))):
            with self.assertRaisesRegex(octet.Error, "runs more than 4 rounds; raise the loop limit"):
                twin(*inputs)
        with self.assertRaisesRegex(octet.Error, "bytes at once, want at most 10"):
            octet.Model.from_bytes(model.to_bytes(), memory_limit=10)
        program = torch.export.export(Function(lambda x: x + 1), (torch.randn(4),))
        with self.assertRaisesRegex(octet.Error, "bytes at once, want at most 10"):
            octet.lower(program, backend="reference", memory_limit=10)

    def test_outputs_live_longer_than_the_model(self):
        model, x = self.small()
        y = model(x)
        kept = y.clone()
        z = model(x.numpy())
        del model
        gc.collect()
        self.assertTrue(torch.equal(y, kept))
        self.assertTrue((z == kept.numpy()).all())
        y.add_(1)  # is the caller's own
        z += 1

    def test_several_outputs_of_several_dtypes(self):
        x, mask, index = torch.randn(2, 3), torch.tensor([True, False, True]), torch.tensor([4, 5])
        model = self.model(Types(), x, mask, index)
        a, b, c, d = model(x, mask, index=index)
        self.assertTrue(torch.equal(a, torch.where(mask, x, -x)))
        self.assertTrue(torch.equal(b, index + 1))
        self.assertTrue(torch.equal(c, mask))
        self.assertTrue(torch.equal(d, x.to(torch.bfloat16)))
        self.assertEqual([info.dtype for info in model.outputs], ["float32", "int64", "bool", "bfloat16"])
        with self.assertRaisesRegex(octet.Error, "output 3 .*is bfloat16, which numpy lacks; pass torch tensors"):
            model(x.numpy(), mask.numpy(), index.numpy())

    def test_sizes_that_a_run_decides(self):
        x, mask = torch.randn(5, 3), torch.tensor([True, False, True, True, False])
        model = self.model(Function(lambda x, mask: x[mask] * 2), x, mask)
        self.assertEqual(model.outputs[0].shape, (None, 3))
        self.assertEqual((model.outputs[0].min_shape, model.outputs[0].max_shape), ((0, 3), (5, 3)))
        for given in (mask, ~mask, mask & ~mask):
            self.assertTrue(torch.equal(model(x, given), x[given] * 2))
            self.assertEqual(model(x.numpy(), given.numpy()).shape, (int(given.sum()), 3))
        self.assertTrue(torch.equal(model.duplicate()(x, mask), x[mask] * 2))

    def test_open_sizes(self):
        batch = torch.export.Dim("batch", min=1, max=16)
        net = nn.Linear(4, 3).eval().requires_grad_(False)
        model = self.model(net, torch.randn(2, 4), dynamic_shapes=[{0: batch}])
        self.assertEqual(model.inputs[0].shape, (None, 4))
        self.assertEqual((model.inputs[0].min_shape, model.inputs[0].max_shape), ((1, 4), (16, 4)))
        for size in [1, 5, 16, 5]:
            x = torch.randn(size, 4)
            self.assertTrue(torch.allclose(model(x), net(x), atol=1e-5))
        with self.assertRaisesRegex(octet.Error, "dimension 0 is 17"):
            model(torch.randn(17, 4))

    def test_states_go_on_and_begin_anew(self):
        model = self.model(Cache(), torch.ones(4))
        twin = pickle.loads(pickle.dumps(model))
        self.assertEqual([model(torch.ones(4))[0].item() for _ in range(3)], [2, 4, 6])
        self.assertEqual(twin(torch.ones(4))[0].item(), 2)
        other = model.duplicate()
        self.assertEqual(other(torch.ones(4))[0].item(), 2)
        other.copy_states(model)
        other.copy_states(other)
        self.assertEqual([other(torch.ones(4))[0].item() for _ in range(2)], [8, 10])
        self.assertEqual(model(torch.ones(4))[0].item(), 8)
        with self.assertRaisesRegex(octet.Error, "the sessions have different states"):
            other.copy_states(self.small()[0])
        model.reset_states()
        self.assertEqual(model(torch.ones(4))[0].item(), 2)

    def test_threads_take_turns_or_have_their_own(self):
        model, x = self.small()
        xs = [torch.randn_like(x) for _ in range(8)]
        expected = [model(one) for one in xs]
        wrong = []

        def work(own):
            for _ in range(5):
                wrong.extend(i for i, one in enumerate(xs) if not torch.equal(own(one), expected[i]))

        for make in (lambda: model, model.duplicate):
            threads = [threading.Thread(target=work, args=(make(),)) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(wrong, [])

    def test_others_run_while_it_does(self):
        # A call gives the GIL away: this thread continues while the other is within one.
        net = nn.Sequential(*[nn.Linear(1500, 1500) for _ in range(8)]).eval().requires_grad_(False)
        x = torch.randn(64, 1500)
        model = self.model(net, x)
        started, steps = threading.Event(), []

        def work():
            started.set()
            model(x)
            steps.append("done")

        thread = threading.Thread(target=work)
        thread.start()
        started.wait()
        while thread.is_alive() and len(steps) < 1000:
            steps.append("here")
        thread.join()
        self.assertIn("here", steps[: steps.index("done")])

    def test_forked_processes(self):
        for backend in ["onednn", "xnnpack"]:
            with self.subTest(backend):
                model, x = self.small(backend)
                expected = model(x.numpy())
                fork = multiprocessing.get_context("fork")
                queue = fork.Queue()
                process = fork.Process(target=in_fork, args=(model, self.path(backend + ".octet"), x.numpy(), queue))
                process.start()
                y, warnings, z, own_warnings = queue.get(timeout=120)
                process.join(timeout=120)
                self.assertEqual(process.exitcode, 0)
                self.assertTrue((y == expected).all())
                self.assertTrue((z == expected).all())
                if len(os.sched_getaffinity(0)) > 1:
                    self.assertIn("threads: this process is a fork", " ".join(warnings))
                    self.assertIn("threads: this process is a fork", " ".join(own_warnings))
                self.assertTrue((model(x.numpy()) == expected).all())

    def test_workers_of_a_data_loader(self):
        model, x = self.small()
        xs = [torch.randn_like(x) for _ in range(4)]
        expected = torch.stack([model(one) for one in xs])
        loader = torch.utils.data.DataLoader(Doubled(model, xs), batch_size=4, num_workers=2, multiprocessing_context="fork")
        self.assertTrue(torch.equal(torch.cat(list(loader)), expected[[0, 1, 2, 3]]))

    def test_calls_do_not_grow_memory(self):
        model, x = self.small(threads=1)
        image = x.numpy()
        for call in (lambda: model(x), lambda: model(image)):
            for _ in range(500):
                call()
            gc.collect()
            before = resident()
            for _ in range(10000):
                call()
            gc.collect()
            self.assertLess(resident() - before, 1 << 20)

    def test_a_failing_call_does_not_grow_memory(self):
        model, x = self.small(threads=1)
        wrong = x.double()

        def fail():
            with self.assertRaises(octet.Error):
                model(wrong)

        for _ in range(500):
            fail()
        gc.collect()
        before = resident()
        for _ in range(5000):
            fail()
        gc.collect()
        self.assertLess(resident() - before, 1 << 20)


if __name__ == "__main__":
    unittest.main()
