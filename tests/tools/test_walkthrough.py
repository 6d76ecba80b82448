"""The blocks of tools/site/docs/start/command.md run unchanged, each in its own process, one after another in one folder."""
import os
import re
import subprocess
import sys
import unittest

import torch
import torch.ao.quantization.fx._decomposed  # noqa: F401 registers the q/dq ops

from support import OCTET, CommandTest, last_scale, sqnr

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools/site/docs/start/command.md")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
IMPORT = re.compile(r"^import torch\.ao\S*", re.MULTILINE)  # what the last Python block imports for the q/dq ops


def walkthrough():
    """(language, text) of the page's blocks from its first Python block to its last, and the text of the later ones."""
    with open(PAGE, encoding="utf-8") as file:
        blocks = BLOCK.findall(file.read())
    python = [k for k, (language, _) in enumerate(blocks) if language == "python"]
    return blocks[python[0]:python[-1] + 1], [text for _, text in blocks[python[-1] + 1:]]


class Walkthrough(CommandTest):
    def setUp(self):
        super().setUp()
        self.blocks, self.later = walkthrough()
        self.assertEqual([language for language, _ in self.blocks], ["python", "sh", "python"])

    def block(self, language, text, succeeds=True):
        """Runs a block in the folder; returns (stdout, stderr)."""
        command = [sys.executable, "-c", text] if language == "python" else ["sh", "-e", "-c", text]
        path = os.pathsep.join([os.path.dirname(OCTET), os.environ["PATH"]])
        result = subprocess.run(command, cwd=self.folder, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=900)
        self.assertEqual(result.returncode == 0, succeeds, f"{text}\n{result.stdout[-2000:]}\n{result.stderr[-2000:]}")
        return result.stdout, result.stderr

    def line(self, start, blocks):
        """The only line of these blocks that starts so."""
        joined = [re.sub(r"\\\n *", "", text) for text in blocks]
        lines = [line for text in joined for line in text.splitlines() if line.startswith(start)]
        self.assertEqual(len(lines), 1, start)
        return lines[0]

    def test_the_blocks_run_as_they_stand(self):
        for language, text in self.blocks:
            out, _ = self.block(language, text)
        self.assertIn("torch.Size([5, 10])", out)
        for name in ("model.pt2", "fixed.pt2", "data.pt", "x.pt", "int8.pt2", "report.html", "model.octet", "y.pt"):
            self.assertTrue(os.path.exists(self.path(name)), name)
        self.assertTrue(32 <= len(torch.load(self.path("data.pt"))) <= 128)

        # What came out is the model, and the same in PyTorch and on the backend.
        x, = torch.load(self.path("x.pt"))
        y, = torch.load(self.path("y.pt"), weights_only=True)
        with torch.no_grad():
            net, quantized = (torch.export.load(self.path(name)).module() for name in ("model.pt2", "int8.pt2"))
            self.assertGreater(sqnr(net(x), quantized(x)), 20)
            self.assertLessEqual((quantized(x) - y).abs().max().item(), 2.001 * last_scale(self.inspect("int8.pt2")["nodes"]))
            for size in (1, 64):
                self.assertEqual(quantized(torch.randn(size, *x.shape[1:])).shape, (size, 10))

        # The program of fixed sizes goes the same way.
        quantize = self.line("octet quantize", [self.blocks[1][1]])
        self.block("sh", quantize.replace("model.pt2", "fixed.pt2").replace("int8.pt2", "fixed8.pt2"))
        with torch.no_grad():
            self.assertTrue(torch.equal(torch.export.load(self.path("fixed8.pt2")).module()(x), quantized(x)))

        # Only what is imported makes PyTorch read the quantized program; dynamic and 4-bit ones need the other import that the page names.
        load = self.blocks[2][1]
        self.assertEqual(len(IMPORT.findall(load)), 1)
        self.assertIn("quantized_decomposed", self.block("python", IMPORT.sub("", load), succeeds=False)[1])
        for start, output in (("octet quantize model.pt2 --quantizer x86 --mode dynamic", "int8.pt2"),
                              ("octet quantize model.pt2 --quantizer embedding,xnnpack --mode weight-only --weight-bits 4", "int4.pt2")):
            with self.subTest(start):
                self.block("sh", self.line(start, self.later))
                other = load.replace("int8.pt2", output)
                self.assertIn("torch.ops.torchao", self.block("python", other, succeeds=False)[1])
                self.block("python", IMPORT.sub("import torchao", other))


if __name__ == "__main__":
    unittest.main()
