#!/usr/bin/env python3
"""The pictures of tools/page/README.md.   page_pictures.py COMPARISON.html

What `octet compare` wrote of the float, the quantized and the lowered program of a real model.
"""
import os
import pathlib
import sys
import tempfile

from PIL import Image

from browser import Browser

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tools" / "page"


def save(page, name):
    """With as many colours as are needed."""
    page.screenshot(FOLDER / name)
    with Image.open(FOLDER / name) as picture:
        small = picture.convert("RGB").quantize(160)
    small.save(FOLDER / name, optimize=True)


def settle(page):
    page.wait_for("new Promise(done => setTimeout(() => done(true), 300))")


def main(comparison):
    with tempfile.TemporaryDirectory() as folder:
        browser = Browser(os.path.join(folder, "profile"))
        try:
            page = browser.open(comparison, width=1280, height=860)
            settle(page)
            save(page, "overview.png")

            page = browser.open(comparison, width=1360, height=860, dark=True)
            page.key("w", "w")
            settle(page)
            page.click("#tab-errors")
            settle(page)
            save(page, "errors.png")
        finally:
            browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
