#!/usr/bin/env python3
"""The pictures of tools/page/README.md.   OCTET_BUILD=build/release page_pictures.py REPORT.html

REPORT.html: what `octet quantize --report` wrote of a real model; the other picture is of the data of page_data.py.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from PIL import Image

import page_data
from browser import Browser

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tools" / "page"
PAGE_OF = os.path.join(os.environ["OCTET_BUILD"], "bin", "page_of")


def save(page, name):
    """With as many colours as are needed."""
    page.screenshot(FOLDER / name)
    with Image.open(FOLDER / name) as picture:
        small = picture.convert("RGB").quantize(160)
    small.save(FOLDER / name, optimize=True)


def settle(page):
    page.wait_for("new Promise(done => setTimeout(() => done(true), 300))")


def main(report):
    with tempfile.TemporaryDirectory() as folder:
        browser = Browser(os.path.join(folder, "profile"))
        try:
            page = browser.open(report, width=1360, height=860)
            page.value("select(nodes.findIndex(node => node.weight && node.output && node.output.histogram), 'key')")
            settle(page)
            save(page, "overview.png")

            data, html = os.path.join(folder, "data.json"), os.path.join(folder, "page.html")
            with open(data, "w") as file:
                json.dump(page_data.large(300, channels=64), file)
            subprocess.run([PAGE_OF, data, html, os.path.join(folder, "nodes.json")], check=True)
            page = browser.open(html, width=1360, height=860, dark=True)
            page.key("w", "w")
            settle(page)
            page.click("#tab-errors")
            settle(page)
            save(page, "errors.png")
        finally:
            browser.close()


if __name__ == "__main__":
    main(sys.argv[1])
