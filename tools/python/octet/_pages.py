"""The base of results that are shown as a page, as JSON, and in a notebook."""

import html
import json
import os
from collections.abc import Callable, Sequence
from typing import Any

from octet_runtime._error import Error


class Page:
    def __init__(self, text: str, page: str, sources: Sequence[str] = ()):
        self._text, self._page = text, page
        self._sources = list(sources)  # files that save() does not replace

    @property
    def data(self) -> dict[str, Any]:
        """All data, as the command's --report and --output write it to F.json."""
        return json.loads(self._text)

    def html(self) -> str:
        """A self-contained HTML page."""
        from octet import _octet

        return _octet.page_html(self._page)

    def _texts(self) -> dict[str, Callable[[], str]]:
        return {".html": self.html, ".json": lambda: self._text}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes F.html or F.json, depending on the suffix, whole or not at all.

        Raises Error for other suffixes, and when the file cannot be written.
        """
        path = os.fspath(path)
        if path.endswith(".model-explorer.json"):
            raise Error("output", path, "only the command writes this form: octet ... --report FILE")
        for ending, text in self._texts().items():
            if path.endswith(ending):
                break
        else:
            endings = " or ".join(self._texts())
            raise Error("output", path, f"want a name that ends in {endings}")
        from octet import _octet

        _octet.write_text(path, text(), self._sources)

    def _repr_html_(self) -> str:
        page = html.escape(self.html(), quote=True)
        return f'<iframe srcdoc="{page}" width="100%" height="720" style="border:0"></iframe>'
