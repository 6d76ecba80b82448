"""What the references share: plain text as Markdown."""
import re


class Missing(Exception):
    """What a reference is made from is not there; the text says what to do."""


def escaped(text):
    """Escapes text for Markdown. Text between backticks is code already."""
    parts = re.split(r"(`[^`]+`)", text)
    return "".join(part if part.startswith("`") and len(part) > 1
                   else re.sub(r"([\\*_\[\]<>|#])", r"\\\1", part) for part in parts)

