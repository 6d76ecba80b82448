"""The pictures of the report page in README.md and tools/page/README.md: what it shows of
EfficientNet-Lite0. OCTET_UPDATE_PICTURES=1 writes them into the tree; without it, they must look
like those in the tree."""
import os
import pathlib
import shutil
import unittest

from PIL import Image, ImageChops, ImageStat

import test_models
from test_page import PageTest

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tools" / "page"
# Least mean difference of gray levels (0 to 255) that is another picture: texts move a little with
# the versions of fonts, and errors with the kernels that a CPU takes.
MOST = 6


def settle(page):
    page.wait_for("new Promise(done => setTimeout(() => done(true), 300))")


def difference(one, other):
    """Mean difference of two pictures seen from afar; None if their sizes differ."""
    if one.size != other.size:
        return None
    small = [picture.convert("L").resize((one.width // 8, one.height // 8), Image.Resampling.BOX)
             for picture in (one, other)]
    return ImageStat.Stat(ImageChops.difference(*small)).mean[0]


class Pictures(PageTest):
    prepare = test_models.Models.prepare

    def take(self, page, name):
        """Takes the picture with as few colors as show no difference."""
        settle(page)
        page.screenshot(self.path(name))
        with Image.open(self.path(name)) as picture:
            small = picture.convert("RGB").quantize(160)
        small.save(self.path(name), optimize=True)
        if os.environ.get("OCTET_UPDATE_PICTURES"):
            shutil.copy(self.path(name), FOLDER)
        with Image.open(FOLDER / name) as known, Image.open(self.path(name)) as taken:
            found = difference(known.convert("RGB"), taken.convert("RGB"))
        print(f"{name}: {found}")
        self.assertIsNotNone(found)
        self.assertLess(found, MOST, f"{name} looks different; OCTET_UPDATE_PICTURES=1 writes it")

    def test_pictures_show_the_page(self):
        self.prepare("efficientnet_lite0")
        os.rename(self.path("model.pt2"), self.path("efficientnet_lite0.pt2"))
        os.rename(self.path("q.pt2"), self.path("int8.pt2"))
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)  # the page has names of files as they were given
        self.octet("lower", "int8.pt2", "--backend", "onednn", "--output", "int8.octet")
        self.octet("compare", "efficientnet_lite0.pt2", "int8.pt2", "int8.octet",
                   "--inputs", "held_out.pt", "--output", "page.html")
        self.take(self.open(self.path("page.html"), width=1280, height=860), "overview.png")
        page = self.open(self.path("page.html"), width=1360, height=860, dark=True)
        page.key("w", "w")
        settle(page)
        page.click("#tab-errors")
        self.take(page, "errors.png")


if __name__ == "__main__":
    unittest.main()
