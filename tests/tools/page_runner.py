"""Runs the blocks of a page as a reader runs them: one after another in one folder, Python in one
session, shell commands with octet and the compiler on the path; a block with title="FILE" is that
file. What the page says that a command prints (a block of text with title="output") is there,
except for numbers.
"""
import contextlib
import io
import os
import pathlib
import re
import subprocess
import sys

from support import OCTET, CommandTest
from page_blocks import BLOCK, BUILD, ROOT, Block, By, fate

TITLE = re.compile(r'title="([^"]+)"')
sys.path.insert(0, str(BUILD / "python"))


def words(text):
    """What is said, without what differs between machines and runs: numbers, widths of columns."""
    return re.sub(r"-?[\d.]+", "N", " ".join(text.split()))


def only():
    """By hand: a part of the names of the pages that run, with what they print."""
    return os.environ.get("OCTET_PAGES", "")


class PageTest(CommandTest):
    command = OCTET
    settings = {}  # of the environment of shell commands
    prefix = "DIR"  # as a page's commands write it

    def blocks(self, page, script):
        for match in BLOCK.finditer((ROOT / page).read_text()):
            info, text = match.groups()
            block = Block(page, 0, info.split(" ")[0], text)
            title = TITLE.search(info)
            if block.language == "text" or title or fate(block) == By(script):
                yield block, title[1] if title else None

    def run_page(self, page, script):
        session, said, folder = {"__name__": "__main__"}, "", os.getcwd()
        os.chdir(self.folder)
        try:
            for block, title in self.blocks(page, script):
                if title == "output":
                    for line in block.text.splitlines():
                        self.assertIn(words(line), words(said), said)
                elif title:
                    pathlib.Path(title).write_text(block.text)
                elif block.language == "python":
                    said = self.told(self.python(block.text, page, session))
                elif block.language == "sh":
                    said = self.told(self.shell(block.text))
        finally:
            os.chdir(folder)

    def told(self, said):
        if only():
            print(said, file=sys.stderr)
        return said

    def python(self, text, page, session):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(text, page, "exec"), session)
        return out.getvalue()

    def shell(self, text):
        path = os.pathsep.join([os.path.dirname(self.command), os.path.dirname(sys.executable),
                                os.environ["PATH"]])
        (pathlib.Path(self.folder) / "octet.pc").write_text(
            "Name: octet\nDescription: the build tree's runtime\nVersion: 0\n"
            f"Cflags: -I{ROOT}/backends/runtime\n"
            f"Libs: -L{BUILD}/backends -loctet_runtime -Wl,-rpath,{BUILD}/backends\n")
        env = {**os.environ, "PATH": path, "PKG_CONFIG_PATH": self.folder,
               "PYTHONPATH": str(BUILD / "python"), **self.settings}
        text = text.replace("PREFIX_PATH=DIR", f"PREFIX_PATH={self.prefix}")
        result = subprocess.run(["sh", "-e", "-c", text], env=env, timeout=600, text=True,
                                capture_output=True)
        self.assertEqual(result.returncode, 0, f"{text}\n{result.stdout}\n{result.stderr}"[-6000:])
        return result.stdout + result.stderr
