"""The report of a quantized program."""

import json
from collections.abc import Sequence
from typing import Any

from octet._messages import as_python
from octet._pages import Page


class Report(Page):
    """What was quantized, how, what stayed float and why, and the error of the outputs.

    A notebook shows it as a page.
    """

    def __init__(self, text: str, page: str, lines: list[str], sources: Sequence[str] = ()):
        super().__init__(text, page, sources)
        self._lines = list(lines)

    @property
    def float_ops(self) -> list[dict[str, Any]]:
        """The ops that stayed float: "node", "target", "module", "stage", "reason"."""
        return self.data["float_ops"]

    @property
    def quality(self) -> dict[str, Any]:
        """Figures: "median_sqnr_db", "worst_sqnr_db", "same_top1", "int8_share", "bytes", ...;
        None for what was not measured. With validate: "validation", of "float" and "quantized"."""
        return self.data["quality"]

    def _add_validation(self, before: float, after: float) -> None:
        data = self.data
        data["quality"]["validation"] = {"float": before, "quantized": after}
        self._text = json.dumps(data, indent=1)
        row = f"{after:.4g}; float {before:.4g}"
        self._lines.insert(0, f"validate {row}")
        page = json.loads(self._page)
        page["summary"].insert(0, ["validate", row])
        self._page = json.dumps(page)

    def show(self) -> None:
        """Prints the figures, and what stayed float."""
        print(self)

    def __str__(self) -> str:
        lines = list(self._lines)
        ops = self.float_ops
        if ops:
            lines.append(f"float: {len(ops)} ops")
            lines += [f"  %{op['node']} ({op['target']}): {op['reason']}" for op in ops[:8]]
            if len(ops) > 8:
                lines.append(f"  and {len(ops) - 8} more; float_ops has them all")
        lines += [f"note: {as_python(note)}" for note in self.data["notes"]]
        return "\n".join(lines)

    def __repr__(self) -> str:
        summary = self.data["summary"]
        counts = f"{summary['quantized_ops']} ops quantized, {summary['float_ops']} float"
        return f"octet.Report({counts})"
