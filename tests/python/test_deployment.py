"""Quantized programs on their way elsewhere: ExecuTorch's XNNPACK delegate, Inductor ahead of time."""

import unittest

import octet
import torch
from package_test import PackageTest, sqnr


def torchaos(program, quantizer, batches):
    """What torchao makes of the program."""
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    prepared = prepare_pt2e(program.module(), quantizer)
    for batch in batches:
        prepared(*batch)
    return torch.export.export(convert_pt2e(prepared), batches[0])


class ExecuTorch(PackageTest):
    def lowered(self, program):
        """(the .pte as bytes, ops outside of the delegate) with XNNPACK's partitioner."""
        from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
        from executorch.exir import to_edge_transform_and_lower

        edge = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])
        ops = [str(node.target) for node in edge.exported_program().graph.nodes if node.op == "call_function"]
        outside = sorted(op for op in ops if "getitem" not in op and "call_delegate" not in op)
        return edge.to_executorch().buffer, outside

    def test_a_pte_that_runs(self):
        from executorch.backends.xnnpack.quantizer import xnnpack_quantizer as xnnpack
        from executorch.extension.pybindings.portable_lib import _load_for_executorch_from_buffer

        def quantizer():
            return xnnpack.XNNPACKQuantizer().set_global(xnnpack.get_symmetric_quantization_config(is_per_channel=True))

        program, batches, x = self.small_program()
        ours = octet.quantize(program, "xnnpack", calibration=batches).exported_program()
        pte, outside = self.lowered(ours)
        _, theirs_outside = self.lowered(torchaos(program, quantizer(), batches))
        self.assertEqual(outside, theirs_outside)
        y = _load_for_executorch_from_buffer(pte).forward([x])[0]
        self.assertGreater(sqnr(ours.module()(x), y), 30)


class Inductor(PackageTest):
    def test_ahead_of_time(self):
        program, batches, x = self.small_program()
        q = octet.quantize(program, "x86", calibration=batches).exported_program()
        path = torch._inductor.aoti_compile_and_package(q, package_path=str(self.path("model_aoti.pt2")))
        y = torch._inductor.aoti_load_package(path)(x)
        self.assertGreater(sqnr(q.module()(x), y), 60)


if __name__ == "__main__":
    unittest.main()
