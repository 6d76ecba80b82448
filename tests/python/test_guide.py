"""Every block of Python on the page of the packages runs, one after another."""

import os
import pathlib
import re
import subprocess
import sys
import unittest

from package_test import PackageTest

PAGE = pathlib.Path(__file__).resolve().parents[2] / "tools/python/README.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Guide(PackageTest):
    def test_blocks_run(self):
        blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
        self.assertGreater(len(blocks), 5)
        program = "\n".join(blocks) + "\nassert y.shape == (1, 10)\n"
        result = subprocess.run(
            [sys.executable, "-B", "-c", program], capture_output=True, text=True, timeout=600, cwd=self.folder
        )
        self.assertEqual(result.returncode, 0, result.stderr[-3000:])
        self.assertEqual(sorted(os.listdir(self.folder)), ["m.octet", "q.onnx", "q.pt2", "report.html"])


if __name__ == "__main__":
    unittest.main()
