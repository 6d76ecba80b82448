"""A program in a lowered form, step by step, beside the same program in PyTorch."""
import torch
from support import CommandTest

BACKENDS = ("reference", "onednn", "xnnpack")


class StepsTest(CommandTest):
    def in_torch(self, name, steps):
        module = torch.export.load(self.path(name)).module(check_guards=False)
        with torch.no_grad():
            outputs = [module(*step) for step in steps]
        return [[tensor.clone() for tensor in (output if isinstance(output, (tuple, list)) else [output])] for output in outputs]

    def check(self, source, steps, share=1e5, *options, backends=BACKENDS, like=None):
        """Every backend's outputs are PyTorch's of `like` (default: of the source itself), except for one part in `share`."""
        want = self.in_torch(like or source, steps)
        self.save("steps.pt", steps)
        for backend in backends:
            with self.subTest(backend=backend, source=source):
                self.octet("lower", self.path(source), "--backend", backend, "--output", self.path("m.octet"), *options)
                self.octet("run", self.path("m.octet"), "--steps", "--inputs", self.path("steps.pt"), "--outputs", self.path("y.pt"))
                for got, theirs in zip(torch.load(self.path("y.pt"), weights_only=True), want, strict=True):
                    for a, b in zip(got, theirs, strict=True):
                        self.assertEqual((a.dtype, a.shape), (b.dtype, b.shape))
                        atol = max(b.abs().max().item() if b.numel() else 0, 0.1) / share if b.is_floating_point() else 0
                        torch.testing.assert_close(a, b, rtol=0, atol=atol)
