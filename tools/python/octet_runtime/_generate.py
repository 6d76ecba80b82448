"""Generates text with a lowered language model, token by token, and measures its perplexity."""

import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from octet_runtime._error import Error


class Token(NamedTuple):
    """A generated token."""

    id: int
    # Complete characters that it adds to the text. A character of several tokens comes with the
    # last one; always "" without a tokenizer.
    text: str


def _refuse(subject: str, message: str, stage: str = "generate") -> Error:
    return Error(stage, subject, message)


class _Words:
    """A tokenizer: that of a tokenizer.json, or an object with encode() and decode(), such as those
    of transformers and tokenizers."""

    def __init__(self, tokenizer: Any):
        self.name = "tokenizer"
        if isinstance(tokenizer, (str, os.PathLike)):
            self.name = os.fspath(tokenizer)
            tokenizer = self._read(self.name)
        self.tokenizer = tokenizer
        self.special = set()
        if hasattr(tokenizer, "get_added_tokens_decoder"):
            known = tokenizer.get_added_tokens_decoder()
            self.special = {id for id, token in known.items() if token.special}
        elif hasattr(tokenizer, "all_special_ids"):
            self.special = set(tokenizer.all_special_ids)

    @staticmethod
    def _read(path: str) -> Any:
        try:
            from tokenizers import Tokenizer
        except ImportError:
            raise _refuse(path, "reading it needs the package tokenizers; pip install tokenizers") from None
        try:
            return Tokenizer.from_file(path)
        except Exception as error:  # tokenizers raises the class Exception itself
            raise _refuse(path, f"is not a tokenizer.json that tokenizers reads: {error}") from None

    def encode(self, text: str) -> list[int]:
        ids = self.tokenizer.encode(text)
        return list(getattr(ids, "ids", ids))

    def decode(self, ids: list[int]) -> str:
        return self.tokenizer.decode(ids)

    def size(self) -> int:
        if hasattr(self.tokenizer, "get_vocab_size"):
            return self.tokenizer.get_vocab_size()
        return len(self.tokenizer) if hasattr(self.tokenizer, "__len__") else 0

    def id_of(self, token: str) -> int | None:
        names = ("token_to_id", "convert_tokens_to_ids")
        find = next((getattr(self.tokenizer, name) for name in names if hasattr(self.tokenizer, name)), None)
        return None if find is None else find(token)


def _ends(stop: Iterable[int | str] | None, words: _Words | None) -> set[int]:
    if stop is None:
        return set() if words is None else words.special
    ends = set()
    for token in stop:
        id = token if isinstance(token, int) else None if words is None else words.id_of(token)
        if id is None:
            raise _refuse("stop", f"{token!r} is not a token of the tokenizer; give its id")
        ends.add(id)
    return ends


class _Text:
    """Decodes tokens one after another into complete characters."""

    def __init__(self, words: _Words, prompt: list[int]):
        self.words = words
        # The tokens that are not given out yet, after some that are: a tokenizer may decode a token
        # differently at the beginning of a text.
        self.ids = prompt[-4:]
        self.known = len(self.ids)  # how many of these are given out

    def add(self, id: int) -> str:
        self.ids.append(id)
        before = self.words.decode(self.ids[: self.known])
        now = self.words.decode(self.ids)
        if now.endswith("\ufffd"):  # a part of a character
            return ""
        self.ids, self.known = self.ids[self.known :], len(self.ids) - self.known
        return now[len(before) :]


class _Decoder:
    """A program that maps token ids, and their positions when it keeps a cache, to scores."""

    def __init__(
        self,
        model: Any,
        stage: str = "generate",
        subject: str = "prompt",
        advice: str = "shorten the prompt, lower max_tokens,",
    ):
        self.stage, self.subject, self.advice = stage, subject, advice
        inputs = [info for info in model.inputs if info is not None]
        whole = [info for info in inputs if info.dtype in ("int64", "int32")]
        ids = [info for info in whole if len(info.shape) == 2 and info.shape[0] in (1, None)]
        positions = [info for info in whole if len(info.shape) == 1]
        if len(ids) != 1 or len(positions) > 1 or len(ids) + len(positions) != len(inputs):
            have = ", ".join(f"{info.name} {info.dtype}{list(info.shape)}" for info in inputs)
            raise _refuse(
                "model",
                f"its inputs are {have}, want token ids [1, n], and for a model with a cache "
                "positions [n]; export it like transformers' TorchExportableModuleForDecoderOnlyLM",
                stage,
            )
        self.model, self.ids = model, ids[0]
        self.positions = positions[0] if positions else None
        length = self.ids.shape[1]
        if length is not None and (self.positions is None or length != 1):
            raise _refuse(
                "model",
                f"takes exactly {length} tokens at a time, want any number, or one at a time with "
                "a cache; export it with a dynamic length",
                stage,
            )
        self.most = length or self.ids.max_shape[1]
        self.past: list[int] = []  # without a cache, all tokens so far

    def check(self, tokens: list[int], words: _Words | None) -> None:
        outputs = [info for info in self.model.outputs if info is not None]
        count = outputs[0].shape[-1] if outputs and outputs[0].shape else None
        if count is None:
            return
        if words is not None and words.size() > count:
            raise _refuse(
                words.name,
                f"has {words.size()} tokens, more than the {count} of the model; give the "
                "tokenizer of this model",
                self.stage,
            )
        for token in tokens:
            if not 0 <= token < count:
                raise _refuse(self.subject, f"has token {token}, want 0 to {count - 1}", self.stage)

    def scores(self, tokens: list[int], start: int) -> np.ndarray:
        """Returns the scores of the token after `tokens`, which are at start, start + 1, ..."""
        if self.positions is None:
            self.past = self.past[:start] + tokens
            return self._run(self.past, 0)[-1]
        for at in range(0, len(tokens), self.most):
            result = self._run(tokens[at : at + self.most], start + at)
        return result[-1]

    def all_scores(self, tokens: list[int]) -> np.ndarray:
        """Returns the scores [n, words] after each of `tokens`, which are at 0, 1, ..."""
        most = len(tokens) if self.positions is None else self.most
        parts = [self._run(tokens[at : at + most], at) for at in range(0, len(tokens), most)]
        return np.concatenate(parts)

    def _run(self, tokens: list[int], start: int) -> np.ndarray:
        inputs = {self.ids.name: np.array([tokens], self.ids.dtype)}
        if self.positions is not None:
            places = np.arange(start, start + len(tokens), dtype=self.positions.dtype)
            inputs[self.positions.name] = places
        try:
            outputs = self.model(**inputs)
        except Error as error:
            if "is outside of" not in error.message:
                raise
            raise _refuse(
                "model",
                f"its cache cannot hold position {start + len(tokens) - 1} ({error.message}); "
                f"{self.advice} or export with a larger cache",
                self.stage,
            ) from None
        scores = _first(outputs)
        return np.asarray(scores, np.float32).reshape(-1, scores.shape[-1])


def _first(outputs):
    """The first tensor of what the module returns: a tuple, a dict, a ModelOutput."""
    while not hasattr(outputs, "shape"):
        if dataclasses.is_dataclass(outputs) and not isinstance(outputs, Mapping):
            outputs = getattr(outputs, dataclasses.fields(outputs)[0].name)
        else:
            outputs = next(iter(outputs.values() if isinstance(outputs, Mapping) else outputs))
    return outputs


def _softmax(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores - scores.max())
    return powers / powers.sum()


def _choose(
    scores: np.ndarray, temperature: float, top_k: int, top_p: float, random: np.random.Generator
) -> int:
    if np.isnan(scores).any():
        raise _refuse("model", "its scores are NaN; compare the program with the float one")
    if temperature == 0:
        return int(scores.argmax())
    order = np.argsort(-scores, kind="stable")
    order = order[: top_k or len(order)]
    chances = _softmax(scores[order].astype(np.float64) / temperature)
    if top_p < 1:  # the fewest tokens that reach top_p together
        count = int(np.searchsorted(chances.cumsum(), top_p)) + 1
        order, chances = order[:count], chances[:count] / chances[:count].sum()
    return int(random.choice(order, p=chances))


def generate(
    model: Any,
    prompt: str | Iterable[int],
    *,
    tokenizer: Any = None,
    max_tokens: int = 128,
    temperature: float = 0.0,
    top_k: int = 0,
    top_p: float = 1.0,
    seed: int | None = None,
    stop: Iterable[int | str] | None = None,
    start: int = 0,
) -> Iterator[Token]:
    """
    Yields the tokens that a language model appends to a prompt, one after another.

    model: a Model whose inputs are token ids [1, n] and, if it keeps a cache, their positions [n], and whose first output has scores [1, n, words].
    prompt: a text, which needs a tokenizer, or token ids.
    tokenizer: the path of a tokenizer.json (needs the package tokenizers), or an object with encode() and decode().
    max_tokens: how many tokens to generate at most.
    temperature: 0 takes the best token each time; else scores are divided by it before a random choice.
    top_k: choose among this many best tokens only; 0: all.
    top_p: choose among the fewest best tokens that have this probability together.
    seed: of the random choices; the same seed gives the same tokens.
    stop: tokens that end the text, which are not yielded; by default the special tokens of the tokenizer.
    start: how many positions of earlier calls in the cache to keep, before the prompt; 0 starts from the beginning.
    Raises Error for a model with other inputs, tokens outside of its vocabulary, and a prompt that its cache cannot hold. The model can be used afterwards, also if the iterator is not exhausted.
    """
    words = None if tokenizer is None else _Words(tokenizer)
    if isinstance(prompt, str) and words is None:
        raise _refuse("prompt", "is a text, want token ids, or a tokenizer to make them")
    for name, value, least, most in (
        ("max_tokens", max_tokens, 0, None), ("temperature", temperature, 0, None),
        ("top_k", top_k, 0, None), ("top_p", top_p, 0, 1), ("start", start, 0, None),
    ):  # fmt: skip
        if not value >= least or (most is not None and value > most):
            wanted = f"at least {least}" if most is None else f"{least} to {most}"
            raise _refuse(name, f"got {value}, want {wanted}")
    tokens = words.encode(prompt) if isinstance(prompt, str) else [int(id) for id in prompt]
    if not tokens:
        raise _refuse("prompt", "is empty, want at least one token")
    decoder = _Decoder(model)
    decoder.check(tokens, words)
    random = np.random.default_rng(seed)
    return _tokens(
        decoder, tokens, words, max_tokens, _ends(stop, words), start,
        lambda scores: _choose(scores, temperature, top_k, top_p, random),
    )  # fmt: skip


def _tokens(
    decoder: _Decoder,
    tokens: list[int],
    words: _Words | None,
    max_tokens: int,
    ends: set[int],
    start: int,
    choose: Callable[[np.ndarray], int],
) -> Iterator[Token]:
    text = None if words is None else _Text(words, tokens)
    for _ in range(max_tokens):
        scores = decoder.scores(tokens, start)
        start += len(tokens)
        tokens = [choose(scores)]
        if tokens[0] in ends:
            return
        yield Token(tokens[0], "" if text is None else text.add(tokens[0]))


def _split(words, text):
    """What the tokenizer puts before a text, and the tokens of the text without what it appends."""
    around, tokens = words.encode(""), words.encode(text)
    count = 0
    while count < len(around) and around[count] == tokens[count]:
        count += 1
    return around[:count], tokens[count : len(tokens) - (len(around) - count)]


def perplexity(
    model: Any, text: str | Iterable[int], *, tokenizer: Any = None, window: int = 512
) -> float:
    """
    Measures how well a language model predicts a text: exp of the mean of -log(probability) over its tokens, as `octet perplexity` does. Lower is better.

    model: as for generate(), with scores of all tokens (logits_to_keep=0, the default).
    text: a text, which needs a tokenizer, or token ids.
    tokenizer: as for generate(). What it puts before a text begins each window.
    window: split the text into windows of this many tokens; each starts with an empty cache, and all its tokens but the first are predicted.
    Raises Error for what generate() refuses, for a text of fewer than two tokens, and for scores that are not finite.
    """
    words = None if tokenizer is None else _Words(tokenizer)
    if isinstance(text, str) and words is None:
        raise _refuse("text", "is a text, want token ids, or a tokenizer to make them", "perplexity")
    prefix, tokens = _split(words, text) if isinstance(text, str) else ([], [int(id) for id in text])
    if not tokens or len(prefix) + len(tokens) < 2:
        raise _refuse("text", f"has {len(tokens)} tokens, want at least 2", "perplexity")
    least = max(2, len(prefix) + 1)
    if window < least:
        raise _refuse("window", f"got {window}, want at least {least}", "perplexity")
    decoder = _Decoder(model, "perplexity", "text", "lower the window")
    decoder.check(tokens, words)
    loss, predicted, step = 0.0, 0, window - len(prefix)
    for at in range(0, len(tokens), step):
        ids = prefix + tokens[at : at + step]
        if len(ids) < 2:
            break
        scores = decoder.all_scores(ids).astype(np.float64)
        if len(scores) != len(ids):
            raise _refuse(
                "model",
                f"gives scores for {len(scores)} of {len(ids)} tokens, want all; load it without "
                "logits_to_keep, or export it without selecting the last one",
                "perplexity",
            )
        scores = scores[:-1] - scores[:-1].max(axis=1, keepdims=True)
        chosen = scores[np.arange(len(ids) - 1), ids[1:]]
        loss += float((np.log(np.exp(scores).sum(axis=1)) - chosen).sum())
        predicted += len(ids) - 1
    value = float(np.exp(min(loss / predicted, 709.0)))  # of more, exp overflows
    if not np.isfinite(loss):
        message = "its scores are not finite; compare the program with the float one"
        raise _refuse("model", message, "perplexity")
    return value
