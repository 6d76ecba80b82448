"""octet.prepare, calibrate and convert, one after another."""

import unittest

import octet
import torch
from package_test import PackageTest


class Steps(PackageTest):
    def test_the_steps_give_what_quantize_gives(self):
        program, batches, x = self.small_program()
        prepared = octet.prepare(program, "xnnpack")
        self.assertEqual(octet.calibrate(prepared, batches[:1]), 1)
        self.assertEqual(octet.calibrate(prepared, batches[1:]), 3)
        self.assertIsNotNone(prepared.annotations["groups"][0]["qparams"])
        q = octet.convert(prepared)
        whole = octet.quantize(program, "xnnpack", calibration=batches, effort="none")
        self.assertTrue(torch.equal(q.module()(x), whole.module()(x)))
        self.assertIsNone(q.report.quality["median_sqnr_db"])

    def test_max_batches_reads_no_further(self):
        program, batches, x = self.small_program()

        def endless():
            yield from batches[:2]
            raise AssertionError("read on")

        want = octet.quantize(program, "xnnpack", calibration=batches[:2]).module()(x)
        self.assertTrue(torch.equal(octet.quantize(program, "xnnpack", calibration=endless(), max_batches=2).module()(x), want))
        self.assertTrue(torch.equal(octet.quantize(program, "xnnpack", calibration=self.path("calibration.pt"), max_batches=2).module()(x), want))
        for data in (endless(), self.path("calibration.pt")):
            prepared = octet.prepare(program, "xnnpack")
            self.assertEqual(octet.calibrate(prepared, data, max_batches=2), 2)
            self.assertTrue(torch.equal(octet.convert(prepared).module()(x), want))
        with self.assertRaisesRegex(octet.Error, "^quantize: max_batches: is 0, want at least 1$"):
            octet.quantize(program, "xnnpack", calibration=batches, max_batches=0)
        with self.assertRaisesRegex(octet.Error, "^calibrate: max_batches: is 0, want at least 1$"):
            octet.calibrate(octet.prepare(program, "xnnpack"), batches, max_batches=0)

    def test_what_needs_no_data(self):
        program, _, x = self.small_program()
        q = octet.convert(octet.prepare(program, "x86", mode="dynamic"))
        same = octet.quantize(program, "x86", mode="dynamic")
        self.assertTrue(torch.equal(q.module()(x), same.module()(x)))

    def test_a_wrong_order_is_an_error(self):
        program, batches, _ = self.small_program()
        prepared = octet.prepare(program, "x86")
        with self.assertRaisesRegex(octet.Error, "convert: the program: was not calibrated; call calibrate"):
            octet.convert(prepared)
        octet.calibrate(prepared, batches)
        octet.convert(prepared)
        for late in (lambda: octet.convert(prepared), lambda: octet.calibrate(prepared, batches)):
            with self.assertRaisesRegex(octet.Error, "convert: the program: is converted already"):
                late()


if __name__ == "__main__":
    unittest.main()
