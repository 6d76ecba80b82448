"""PyTorch's own list of ops with sample inputs (op_db): each is exported, lowered and run without
LibTorch, and gives what PyTorch gives, or is refused in one line and named here."""
import re
import unittest
import warnings

import octet
import torch
from package_test import PackageTest
from torch.utils._pytree import tree_flatten, tree_unflatten

SAMPLES = 2  # of an op, spread over those that it has

# What is not run without LibTorch, by reason. `--fallback torch` runs it.
# norm: its nuclear one alone
MATRICES = """cholesky_inverse cholesky_solve geqrf logdet lu lu_solve lu_unpack matrix_exp
    norm ormqr pca_lowrank pinverse svd svd_lowrank triangular_solve"""
SPECIAL_FUNCTIONS = "digamma erfinv i0 igamma igammac nextafter polygamma frexp"
# unique_consecutive: torch records a wrong shape along a dimension from the end
SIZES_OF_DATA = "combinations tensor_split unique_consecutive"
COMPLEX = """cdouble cfloat chalf complex polar view_as_complex fft.fft fft.fft2 fft.fftn fft.hfft
    fft.hfft2 fft.hfftn fft.ifft fft.ifft2 fft.ifftn fft.ihfft fft.ihfft2 fft.ihfftn fft.rfft
    fft.rfft2 fft.rfftn"""
RANDOM = """nn.functional.fractional_max_pool2d nn.functional.fractional_max_pool3d
    nn.functional.rrelu"""
WRITES_INTO_INPUTS = """_batch_norm_with_update _native_batch_norm_legit native_batch_norm
    nn.functional.batch_norm nn.functional.embedding nn.functional.instance_norm resize_
    resize_as_"""
TRAINING = """_segment_reduce _softmax_backward_data max_pool2d_with_indices_backward
    nn.functional.linear_cross_entropy nn.functional.multi_margin_loss
    nn.functional.multilabel_margin_loss"""
OTHERS = """hash_tensor histogram histogramdd index_reduce linspace logspace mode
    nn.functional.pdist"""
REFUSED = set(" ".join((MATRICES, SPECIAL_FUNCTIONS, SIZES_OF_DATA, COMPLEX, RANDOM,
                        WRITES_INTO_INPUTS, TRAINING, OTHERS)).split())
# Random numbers, parts of the library of other names, and what makes no tensor of tensors.
LEFT_OUT = re.compile(r"linalg|special|masked\.|sparse|rand|dropout|bernoulli|multinomial|normal"
                      r"|cauchy|exponential|geometric|empty|signal|uniform|stft|jiterator")


class Op(torch.nn.Module):
    """A call of an op; its tensors are the inputs, all else is fixed."""

    def __init__(self, op, leaves, form):
        super().__init__()
        self.op, self.leaves, self.form = op, leaves, form

    def forward(self, *tensors):
        given = iter(tensors)
        leaves = [next(given) if isinstance(leaf, torch.Tensor) else leaf for leaf in self.leaves]
        arguments, named = tree_unflatten(leaves, self.form)
        return tuple(tensors_of(self.op(*arguments, **named)))


def tensors_of(tree):
    return [leaf for leaf in tree_flatten(tree)[0] if isinstance(leaf, torch.Tensor)]


def ops():
    from torch.testing._internal.common_methods_invocations import op_db
    return [op for op in op_db
            if torch.float32 in op.supported_dtypes("cpu") and not LEFT_OUT.search(op.name)]


def samples_of(op):
    torch.manual_seed(0)
    samples = list(op.sample_inputs("cpu", torch.float32))
    return samples[::max(1, len(samples) // SAMPLES)][:SAMPLES]


@unittest.skipUnless(torch.__version__.startswith("2.13."), "the list is another one with each torch")
class AtenOps(PackageTest):
    def outcome(self, op, sample):
        """"same", "refused", or nothing where PyTorch itself exports no program."""
        leaves, form = tree_flatten(((sample.input, *sample.args), sample.kwargs))
        inputs = tuple(tensors_of(leaves))
        net = Op(op, leaves, form)
        try:
            want = net(*(x.clone() for x in inputs))
            program = torch.export.export(net, inputs, strict=False)
        except Exception:  # of PyTorch: what the sample wants to show
            return None
        if not inputs or not want:
            return None
        try:
            got = tensors_of(octet.lower(program, backend="reference")(*(x.clone() for x in inputs)))
        except octet.Error as error:
            self.assertNotIn("\n", str(error))
            return "refused"
        self.assertEqual(len(got), len(want))
        for ours, theirs in zip(got, want):
            self.assertEqual(ours.dtype, theirs.dtype)
            torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4, equal_nan=True)
        return "same"

    def test_they_give_what_pytorch_gives_or_are_named(self):
        refused, same = set(), set()
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            for op in ops():
                for number, sample in enumerate(samples_of(op)):
                    with self.subTest(op=op.name, variant=op.variant_test_name, sample=number):
                        outcome = self.outcome(op, sample)
                        if outcome is not None:
                            (refused if outcome == "refused" else same).add(op.name)
        self.assertGreater(len(same), 330)
        self.assertEqual(refused - REFUSED, set(), "refused, and not in the list")
        self.assertEqual(REFUSED - refused, set(), "in the list, and not refused")


if __name__ == "__main__":
    unittest.main()
