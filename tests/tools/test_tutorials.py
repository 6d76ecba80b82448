"""The blocks of the site's own pages (tools/site/docs/**/*.md), run as a reader runs them."""
import os
import subprocess
import sys
import time
import unittest

os.environ["OMP_NUM_THREADS"] = "1"  # before torch: small models, beside other tests

from page_blocks import BUILD, PLAN, By  # noqa: E402
from page_runner import PageTest, only  # noqa: E402

PAGES = sorted(name for name, plan in PLAN.items() if By("test_tutorials.py") in plan.values())


class Tutorials(PageTest):
    def test_pages(self):
        self.assertGreater(len(PAGES), 5)
        for page in PAGES:
            if only() in page:
                with self.subTest(page=page):
                    start, used = time.monotonic(), sum(os.times()[:4])
                    self.setUp()
                    self.run_page(page, "test_tutorials.py")
                    print(f"{page}: {time.monotonic() - start:.1f} s, "
                          f"{sum(os.times()[:4]) - used:.1f} s of CPUs", file=sys.stderr)

    def test_the_first_result_comes_soon(self):
        """The lines of README.md, in a new process. Limits are for two cores, without the import
        of torch."""
        page = "README.md"
        [(block, _)] = [found for found in self.blocks(page, "test_tutorials.py")
                        if found[0].language == "python"]
        self.assertLessEqual(len(block.text.splitlines()), 7)
        script = ("import sys, time, torch\n"
                  "start = time.process_time()\n"
                  "exec(sys.argv[1])\n"
                  "print(time.process_time() - start)")
        result = subprocess.run([sys.executable, "-c", script, block.text], capture_output=True,
                                env={**os.environ, "PYTHONPATH": str(BUILD / "python")},
                                text=True, check=True, cwd=self.folder)
        seconds = float(result.stdout.split()[-1])
        print(f"first result: {seconds:.1f} s of CPU", file=sys.stderr)
        self.assertLess(seconds, 30)


if __name__ == "__main__":
    unittest.main()
