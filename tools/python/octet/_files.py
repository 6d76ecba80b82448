"""Passes programs and settings to the compiled part as files in a temporary folder, and data."""

import contextlib
import json
import os
import pathlib
import tempfile

import torch
from octet_runtime._error import Error
from torch.export import ExportedProgram

from octet import _data


@contextlib.contextmanager
def _plain_weights(program: ExportedProgram):
    """Replaces lazy conjugates and negatives by plain tensors while the context is open, because
    torch.export.save loses their conjugate and negative bits."""
    tables = [program.state_dict, program.constants]
    marked = [
        {
            name: value
            for name, value in table.items()
            if isinstance(value, torch.Tensor) and (value.is_conj() or value.is_neg())
        }
        for table in tables
    ]
    try:
        for table, values in zip(tables, marked):
            for name, value in values.items():
                plain = value.detach().resolve_conj().resolve_neg()
                if isinstance(value, torch.nn.Parameter):
                    plain = torch.nn.Parameter(plain, value.requires_grad)
                table[name] = plain
        yield
    finally:
        for table, values in zip(tables, marked):
            table.update(values)


def is_path(value) -> bool:
    return isinstance(value, (str, os.PathLike))


def loaded(model):
    """The module of "hf:FOLDER", which save_pretrained() of transformers wrote; other models
    unchanged."""
    if not isinstance(model, str) or not model.startswith("hf:"):
        return model
    folder = model[len("hf:") :]
    if not os.path.isdir(folder):
        raise Error("quantize", model, f"{folder} is not a folder, want what save_pretrained() wrote")
    try:
        import transformers
    except ImportError:
        message = "transformers, which reads it, is not installed; install it"
        raise Error("quantize", model, message) from None
    try:
        config = transformers.AutoConfig.from_pretrained(folder)
        name = (config.architectures or ["AutoModel"])[0]
        kind = getattr(transformers, name, transformers.AutoModel)
        return kind.from_pretrained(folder).eval()
    except Exception as error:  # safetensors raises subclasses of Exception itself
        said = str(error).split("\n")[0]
        raise Error("quantize", model, f"cannot be loaded ({said}); give what save_pretrained() wrote") from None


class Folder:
    """A temporary folder, and the names of its files for messages."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="octet-")
        self.names = {}
        self.held = {}  # _data.Batches by the name of the argument

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._folder.cleanup()

    def path(self, file: str, name: str) -> str:
        path = os.path.join(self._folder.name, file)
        self.names[path] = name
        return path

    def program(self, model, example_inputs=None, file="model.pt2"):
        """(path of a .pt2, the ExportedProgram or None for a path)."""
        model = loaded(model)
        if is_path(model):
            return os.fspath(model), None
        program = exported(model, example_inputs)
        path = self.path(file, "the program")
        try:
            _data.name_dataclasses(program)
            with _plain_weights(program):
                torch.export.save(program, path)
        except NotImplementedError as error:  # for unknown types
            said = " ".join(str(error).split("\n")[0].split())
            raise Error(
                "quantize",
                "model",
                f"torch.export.save cannot write it ({said}); register the type with a "
                "serialized_type_name, or give tuples and dictionaries of tensors",
            ) from None
        return path, program

    def given(self, name, kind, value, program, max_batches=None, has_labels=False):
        """Converts an argument for the compiled part. kind: from octet._octet.arguments()."""
        if kind == "data":
            return self.data(value, program, name, max_batches, has_labels)
        if kind == "settings":
            return self.json(value, f"{name}.json", name)
        if kind == "labels" and not is_path(value):
            path = self.path(f"{name}.pt", name)
            torch.save(torch.as_tensor(value), path)
            return path
        return os.fspath(value) if kind in ("file", "labels") else value

    def data(self, batches, program, name, max_batches=None, has_labels=False) -> str:
        """Holds the batches of an iterable by a name; returns the path of a DATA.pt unchanged."""
        if is_path(batches):
            return os.fspath(batches)
        held = _data.Batches(batches, program, name, max_batches, has_labels)
        held.hold()
        self.held[name] = held
        return self.hold(f"the {name} batches", name, held)

    def hold(self, key: str, name: str, batches) -> str:
        self.names[key] = name
        return _data.hold(key, batches)

    def json(self, value, file: str, name: str) -> str:
        """Writes a dict to a JSON file; returns a given path unchanged."""
        if is_path(value):
            return os.fspath(value)
        path = self.path(file, name)
        try:
            text = json.dumps(value)
        except (TypeError, ValueError) as error:
            raise Error("quantize", name, f"is not JSON: {error}") from None
        pathlib.Path(path).write_text(text, encoding="utf-8")
        return path


def exported(model, example_inputs=None) -> ExportedProgram:
    """Exports a module with the example inputs, without changing its mode."""
    if isinstance(model, ExportedProgram):
        if example_inputs is not None:
            raise Error("quantize", "example_inputs", "go with a module, got an ExportedProgram")
        return model
    if not isinstance(model, torch.nn.Module):
        raise Error(
            "quantize",
            "model",
            f"got {type(model).__name__}, want an ExportedProgram, a torch.nn.Module with "
            "example_inputs, or the path of a .pt2",
        )
    if example_inputs is None:
        raise Error("quantize", "example_inputs", "are missing; a module is exported with them")
    args, kwargs = _data.call_of(example_inputs)
    with torch.no_grad():
        return torch.export.export(model, args, kwargs)
