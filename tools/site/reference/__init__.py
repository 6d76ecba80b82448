"""The reference pages, made from the sources at each build."""
from . import c_header, command, messages, python, schema, support
from .text import Missing

__all__ = ["Missing", "pages"]


def pages():
    """MkDocs' name of each page: its Markdown. Raises Missing."""
    return {**command.pages(), **python.pages(), **c_header.pages(), **schema.pages(),
            **messages.pages(), **support.pages()}
