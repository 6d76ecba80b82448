"""generate(): the tokens are those of the float model's loop, with a cache and without."""

import contextlib
import io
import pathlib
import re
import unittest

import numpy as np
import octet
import torch
from package_test import PackageTest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from torch import nn
from torch.export import Dim

PAGE = pathlib.Path(__file__).resolve().parents[2] / "tools/python/README.md"
CONTEXT = 24


class Decoder(nn.Module):
    """One attention layer over a cache of CONTEXT positions, or over all tokens."""

    def __init__(self, words, has_cache):
        super().__init__()
        torch.manual_seed(3)
        self.words, self.places = nn.Embedding(words, 16), nn.Embedding(CONTEXT, 16)
        self.inward, self.outward = nn.Linear(16, 48), nn.Linear(16, words)
        self.register_buffer("keys", torch.zeros(1, CONTEXT, 16))
        self.register_buffer("values", torch.zeros(1, CONTEXT, 16))
        self.register_buffer("order", torch.arange(CONTEXT))
        self.has_cache = has_cache

    def forward(self, ids, positions):
        q, k, v = self.inward(self.words(ids) * 3 + self.places(positions)).chunk(3, -1)
        if self.has_cache:
            k, v = self.keys.index_copy_(1, positions, k), self.values.index_copy_(1, positions, v)
        seen = self.order[: k.shape[1]] <= positions[:, None]
        return self.outward(nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=seen))


class WithoutCache(nn.Module):
    def __init__(self, words):
        super().__init__()
        self.decoder = Decoder(words, has_cache=False)

    def forward(self, ids):
        return self.decoder(ids, self.decoder.order[: ids.shape[1]])


def greedy(words, prompt, count):
    net, tokens = WithoutCache(words), list(prompt)
    with torch.no_grad():
        for _ in range(count):
            tokens.append(net(torch.tensor([tokens]))[0, -1].argmax().item())
    return tokens[len(prompt) :]


def with_cache(words, length=None):
    size = Dim("size", max=CONTEXT)
    at_once = length or 3
    dynamic = None if length else ({1: size}, {0: size})
    inputs = (torch.zeros(1, at_once, dtype=torch.long), torch.arange(at_once))
    return torch.export.export(Decoder(words, has_cache=True), inputs, dynamic_shapes=dynamic)


def lowered(program, backend="onednn"):
    return octet.lower(program, backend=backend)


def small_tokenizer():
    """Bytes as tokens, so that a character may take several; and an end of text."""
    vocabulary = {c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<end>", special=True)])
    return tokenizer


class Echo:
    """A Model that "predicts" the tokens of a text."""

    def __init__(self, ids, words):
        program = with_cache(words)
        self.model, self.ids = lowered(program), ids
        self.inputs, self.outputs = self.model.inputs, self.model.outputs

    def __call__(self, **inputs):
        scores = self.model(**inputs)
        scores[0, -1] = 0
        scores[0, -1, self.ids[inputs[self.inputs[1].name][-1]]] = 1
        return scores


class Generate(PackageTest):
    PROMPT = [5, 17, 2, 30]

    def ids(self, model, prompt=PROMPT, **options):
        return [token.id for token in octet.generate(model, prompt, **options)]

    def test_tokens_are_those_of_the_float_model(self):
        want = greedy(40, self.PROMPT, 15)
        self.assertGreater(len(set(want)), 3)
        for backend in ("onednn", "xnnpack", "reference"):
            with self.subTest(backend):
                cached = lowered(with_cache(40), backend)
                self.assertEqual(self.ids(cached, max_tokens=15), want)
                self.assertEqual(self.ids(lowered(with_cache(40, length=1), backend), max_tokens=15), want)
                size = {1: Dim("size", max=CONTEXT)}
                inputs = (torch.zeros(1, 3, dtype=torch.long),)
                whole = torch.export.export(WithoutCache(40), inputs, dynamic_shapes=(size,))
                self.assertEqual(self.ids(lowered(whole, backend), max_tokens=15), want)

    def test_the_cache_goes_on_where_it_was_cut(self):
        model = lowered(with_cache(40))
        first = self.ids(model, max_tokens=3)
        self.ids(model, [9, 9, 9], start=6, max_tokens=4)  # overwritten below
        self.assertEqual(self.ids(model, first[-1:], start=6, max_tokens=5), greedy(40, self.PROMPT, 8)[3:])

    def test_a_cache_that_was_cut_is_one_that_never_had_more(self):
        def scores(model, tokens, start):
            return np.asarray(model(np.array([tokens]), np.arange(start, start + len(tokens))))

        rounded = octet.quantize(with_cache(40), "kv_cache", mode="weight-only")
        for program, backend in ((with_cache(40), "onednn"), (with_cache(40), "xnnpack"), (rounded, "onednn"), (rounded, "reference")):
            with self.subTest(backend, rounded=program is rounded):
                cut = lowered(program, backend)
                whole = cut.duplicate()
                for model in (cut, whole):
                    scores(model, self.PROMPT, 0)
                scores(cut, [7, 8, 9], 4)
                for count in (25, -1):
                    with self.assertRaisesRegex(octet.Error, f"truncate_states: got {count} positions, want 0 to 24"):
                        cut.truncate_states(count)
                cut.truncate_states(4)
                # the program attends to positions that are not there yet
                for start in (20, 4, 7):
                    self.assertTrue(np.array_equal(scores(cut, [3, 1], start), scores(whole, [3, 1], start)))
        with self.assertRaisesRegex(octet.Error, "truncate_states: the program has no cache"):
            lowered(torch.export.export(WithoutCache(40), (torch.zeros(1, 3, dtype=torch.long),))).truncate_states(0)

    def test_a_seed_decides_random_tokens(self):
        model = lowered(with_cache(40))
        random = {"temperature": 2.0, "top_k": 30, "top_p": 0.95, "max_tokens": 12}
        first = self.ids(model, seed=1, **random)
        self.assertEqual(self.ids(model, seed=1, **random), first)
        self.assertNotEqual(self.ids(model, seed=2, **random), first)
        best = greedy(40, self.PROMPT, 12)
        self.assertEqual(self.ids(model, temperature=5.0, top_k=1, max_tokens=12), best)
        self.assertEqual(self.ids(model, temperature=0.1, top_p=1e-9, max_tokens=12), best)

    def test_text_comes_by_whole_characters_until_a_special_token(self):
        tokenizer = small_tokenizer()
        tokenizer.save(self.path("tokenizer.json"))
        said = tokenizer.encode("é €!").ids
        model = Echo([0, *said, tokenizer.token_to_id("<end>"), 0, 0], tokenizer.get_vocab_size())
        for given in (tokenizer, self.path("tokenizer.json")):
            tokens = list(octet.generate(model, "ab", tokenizer=given))
            self.assertEqual([token.id for token in tokens], said)
            self.assertEqual([token.text for token in tokens], ["", "é", " ", "", "", "€", "!"])
        tokens = octet.generate(model, "ab", tokenizer=tokenizer, stop=["!", 300])
        self.assertEqual("".join(token.text for token in tokens), "é €")

    def test_the_block_of_the_page_runs(self):
        tokenizer = small_tokenizer()
        tokenizer.save(self.path("tokenizer.json"))
        ids = tokenizer.encode("The capital of France is").ids
        block = re.search(r"```py\n(for token in .*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[1]
        block = block.replace("tokenizer.json", self.path("tokenizer.json"))
        block = block.replace("The capital of France is", "is")
        model = Echo([0, *ids[:16], tokenizer.token_to_id("<end>")], tokenizer.get_vocab_size())
        with contextlib.redirect_stdout(io.StringIO()) as said:
            exec(block, {"octet": octet, "model": model})
        self.assertEqual(said.getvalue(), "The capital of F")

    def test_mistakes_are_one_line_and_leave_the_model_usable(self):
        model = lowered(with_cache(40))
        wanted = {
            "prompt: is empty": {"prompt": []},
            "prompt: has token 40, want 0 to 39": {"prompt": [1, 40]},
            "prompt: is a text": {"prompt": "ab"},
            "top_p: got 1.5, want 0 to 1": {"top_p": 1.5},
            "temperature: got nan, want at least 0": {"temperature": float("nan")},
            "more than the 40 of the model": {"prompt": "ab", "tokenizer": small_tokenizer()},
            "missing.json: is not a tokenizer.json": {"tokenizer": self.path("missing.json")},
            "stop: '!' is not a token": {"stop": ["!"]},
            "cannot hold position 24": {"max_tokens": 22},
            "cannot hold position 25": {"prompt": [1] * 26},
        }
        for text, options in wanted.items():
            with self.subTest(text), self.assertRaises(octet.Error) as caught:
                self.ids(model, **options)
            self.assertIn(text, str(caught.exception))
            self.assertEqual(caught.exception.stage, "generate")
            self.assertEqual(self.ids(model, max_tokens=3), greedy(40, self.PROMPT, 3))
        fixed = torch.export.export(WithoutCache(40), (torch.zeros(1, 3, dtype=torch.long),))
        other = torch.export.export(nn.Linear(3, 2), (torch.zeros(1, 3),))
        for program, text in ((fixed, "exactly 3 tokens"), (other, "want token ids [1, n]")):
            with self.assertRaisesRegex(octet.Error, f"^generate: model: .*{text.replace('[', chr(92) + '[')}"):
                self.ids(lowered(program))

    def test_a_loop_that_ends_early_leaves_the_model_usable(self):
        model = lowered(with_cache(40))
        for token in octet.generate(model, self.PROMPT, max_tokens=15):
            break
        self.assertEqual(token.id, greedy(40, self.PROMPT, 1)[0])
        self.assertEqual(self.ids(model, max_tokens=15), greedy(40, self.PROMPT, 15))


if __name__ == "__main__":
    unittest.main()
