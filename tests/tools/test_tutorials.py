"""The blocks of the site's own pages (tools/site/docs/**/*.md), run as a reader runs them."""
import os
import sys
import time
import unittest

os.environ["OMP_NUM_THREADS"] = "1"  # before torch: small models, beside other tests

from page_blocks import PLAN, By  # noqa: E402
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


if __name__ == "__main__":
    unittest.main()
