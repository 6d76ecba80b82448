"""Runs .octet files: the compiled part of octet_runtime."""

import os
from typing import Any

__version__: str

class TensorInfo:
    """An input or output of a Model."""

    @property
    def name(self) -> str:
        """Its name in the exported program."""

    @property
    def dtype(self) -> str:
        """"float32", "int8", ..."""

    @property
    def shape(self) -> tuple[int | None, ...]:
        """None for a size that is open."""

    @property
    def min_shape(self) -> tuple[int, ...]:
        """The minimum of each size."""

    @property
    def max_shape(self) -> tuple[int, ...]:
        """The maximum of each size."""

    @property
    def scale(self) -> float | None:
        """
        Of quantized integers: real = scale * (integer - zero_point); None otherwise.
        """

    @property
    def zero_point(self) -> int | None: ...

    def __repr__(self) -> str: ...

class Model:
    """
    A lowered program, compiled for this machine: call it with its inputs.

    Calls from several threads take turns; duplicate() gives each thread its own. Pickling takes the
    program and its options along; states are reset. In a forked process (a DataLoader's worker) it
    runs with one thread.
    """

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """
        Runs the program once.

        inputs: numpy arrays, torch tensors on the CPU or what has DLPack, of the dtypes and shapes in
        `inputs`; as the exported module takes them (in dicts, lists or dataclasses, by keyword), or all by
        position or by name. They are not copied when their elements lie row by row.
        Returns what the module does: torch tensors when an input is one, else numpy arrays. A type that
        this process has not imported becomes a dict of its fields, a named tuple a tuple.
        Raises Error on a wrong count, dtype or shape; nothing is converted.
        """

    def kernels(self, *inputs: Any, runs: int = 20, **named: Any) -> list[dict[str, Any]]:
        """
        Runs the program a few more times and reports for each call of a kernel: ops, what, kernel, layout, post_ops, seconds (of the fastest run), note (why it is slower than it could be).
        """

    def reset_states(self) -> None:
        """Resets the buffers that the program writes to their initial values."""

    def copy_states(self, other: Model) -> None:
        """
        Takes the buffers of another Model of the same program, such as a language model's cache: the next call continues what `other` has run so far.
        """

    def truncate_states(self, count: int) -> None:
        """
        Rolls the cache of a language model back: keeps what is at positions 0 to count - 1, and resets the rest, as if the model had not been called with later positions. Raises Error, and changes nothing, if count is negative or exceeds the positions of the cache, if the model has no cache, or if a buffer has no row for each position (the cache of a sliding window: keep a copy of that with copy_states).
        """

    def duplicate(self) -> Model:
        """A Model of the same program for another thread; weights are shared."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """
        Writes an .octet file of what runs, whole or not at all. Raises Error when it cannot.
        """

    def to_bytes(self) -> bytes:
        """The bytes of that file."""

    @staticmethod
    def from_bytes(bytes: bytes, *, threads: int | None = None, memory_limit: int = 0, loop_limit: int = 0, cached_shapes: int = 4, logits_to_keep: int = 0, cache_folder: str | os.PathLike[str] | None = None) -> Model:
        """
        The program of a file's bytes; limits as those of load. Raises Error when they are damaged.
        """

    def __getstate__(self) -> tuple[bytes, dict[str, Any]]: ...

    def __setstate__(self, arg: tuple[bytes, dict[str, Any]], /) -> None: ...

    @property
    def backend(self) -> str:
        """
        The backends that the program was lowered for, with commas between them.
        """

    @property
    def inputs(self) -> list[TensorInfo | None]:
        """A TensorInfo each; None for what the program does not read."""

    @property
    def outputs(self) -> list[TensorInfo | None]: ...

    @property
    def threads(self) -> int: ...

    @property
    def warnings(self) -> list[str]:
        """
        Why the program runs slower on this machine than it could; with open sizes, known after the first call.
        """

    def __str__(self) -> str: ...

    def __repr__(self) -> str: ...

def load(path: str | os.PathLike[str], *, threads: int | None = None, memory_limit: int = 0, loop_limit: int = 0, cached_shapes: int = 4, logits_to_keep: int = 0, cache_folder: str | os.PathLike[str] | None = None, verify: bool = True) -> Model:
    """
    The program of an .octet file.

    path: what `octet lower` or Model.save wrote; it is mapped, and must not be written into meanwhile.
    threads: how many to use, 1 to 1024; by default all CPUs that this process may use, at most OMP_NUM_THREADS.
    memory_limit: bytes that inputs, outputs, states and intermediates may take; 0: what the machine has.
    loop_limit: how many times a loop may run its body in one run; 0: no limit.
    cached_shapes: for open sizes: how many sets of sizes stay compiled, those used last; at least 1.
    logits_to_keep: for language models: how many last positions get scores (logits); 0: all.
    cache_folder: a folder that keeps packed weights for the next start (oneDNN), unless others write it.
    verify: compares all bytes with the checksum in the file.
    Raises Error when the file is missing, damaged or of a backend that is not here.
    """

def load_plugin(path: str | os.PathLike[str]) -> str:
    """
    Loads a plug-in, a shared library with one backend, and returns the backend's name.

    path: of the library, which defines octet_plugin_entry (octet_plugin.h). load() then runs files that
        were lowered for the backend.

    Loading a plug-in again changes nothing, and none is unloaded. Raises Error when the file is
    missing or is not a plug-in, when its table has a fault, or its name is taken.
    """

def backends() -> list[str]:
    """The names of the available backends."""
