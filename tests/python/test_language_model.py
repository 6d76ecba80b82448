"""octet generate, perplexity and bench --decode on small seeded models, and the page about them."""

import json
import math
import os
import re
import signal
import subprocess
import unittest
from unicodedata import category

import octet
import octet_runtime
import torch
from package_test import OCTET, PackageTest
from page_runner import PageTest
from test_generate import CONTEXT, WithoutCache, lowered, small_tokenizer, with_cache
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch import nn
from torch.export import Dim
from transformers import LlamaConfig, LlamaForCausalLM

WORDS = 257  # of small_tokenizer()
PAGE = "tools/site/docs/tutorials/language_model.md"
CHATML = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def without_escapes(said):
    """The output of the command without escapes of characters that it does not print."""
    return re.sub(r"\\x[0-9a-f]{2}|\\u\{[0-9a-f]+\}", "", said)


def printable(text):
    return "".join(c for c in text if c in "\n\t" or category(c) not in ("Cc", "Cf"))


class Commands(PackageTest):
    def setUp(self):
        super().setUp()
        small_tokenizer().save(self.path("tokenizer.json"))
        lowered(with_cache(WORDS)).save(self.path("m.octet"))

    def generate(self, *arguments, model="m.octet", tokenizer="tokenizer.json"):
        command = [OCTET, "generate", self.path(model), "--tokenizer", self.path(tokenizer), "--threads", "1"]
        return subprocess.run([*command, *arguments], capture_output=True)

    def refused(self, text, *arguments, **files):
        done = self.generate(*arguments, **files)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stderr.count(b"\n"), 1, done.stderr)
        self.assertIn(text, done.stderr.decode())

    def test_tokens_are_those_of_python(self):
        model = octet_runtime.load(self.path("m.octet"), threads=1)
        random = {"temperature": 2.0, "top_k": 90, "top_p": 0.95}
        for options in ({}, *({**random, "seed": seed} for seed in (0, 7, 2**40)), {"temperature": 4.0, "seed": 3}):
            with self.subTest(options):
                tokens = octet_runtime.generate(
                    model, "é€ x", tokenizer=self.path("tokenizer.json"), max_tokens=16, **options
                )
                want = "".join(token.text for token in tokens)
                given = [word for name, value in options.items() for word in ("--" + name.replace("_", "-"), str(value))]
                done = self.generate("--prompt", "é€ x", "--max-tokens", "16", *given)
                self.assertEqual(done.returncode, 0, done.stderr)
                said = without_escapes(done.stdout.decode())
                self.assertEqual(said, printable(want) + "\n")
                self.assertGreater(len(said), 4)
                self.assertIn(b"prompt of 7 tokens", done.stderr)

    def test_mistakes_are_one_line(self):
        self.refused("prompt: is empty", "--prompt", "")
        self.refused("text: is not valid UTF-8 at byte 1 (0xff)", "--prompt", b"a\xff")
        self.refused("its cache cannot hold position 24", "--prompt", "a", "--max-tokens", "40", "--stop", "<end>")
        self.refused("generate: model: its cache cannot hold position", "--prompt", "a" * 30)
        self.refused("stop: '<no>' is not a token", "--prompt", "a", "--stop", "<no>")
        self.refused("has no chat template", "--prompt", "a", "--chat")
        self.refused("is not an .octet program", "--prompt", "a", model="m.pt2")
        self.refused("cannot be read", "--prompt", "a", tokenizer="none.json")
        lowered(with_cache(40)).save(self.path("small.octet"))
        self.refused("has 257 tokens, more than the 40 of the model", "--prompt", "a", model="small.octet")
        other = torch.export.export(nn.Linear(3, 2), (torch.zeros(1, 3),))
        lowered(other).save(self.path("other.octet"))
        self.refused("model: its inputs are", "--prompt", "a", model="other.octet")
        fixed = torch.export.export(WithoutCache(WORDS), (torch.zeros(1, 3, dtype=torch.long),))
        lowered(fixed).save(self.path("fixed.octet"))
        self.refused("takes exactly 3 tokens at a time", "--prompt", "a", model="fixed.octet")

    def test_perplexity_is_that_of_the_float_model(self):
        text = "The é€ quick\nbrown fox jumps over the lazy dog."
        with open(self.path("text.txt"), "w", encoding="utf-8") as file:
            file.write(text)
        ids, size, loss, count = small_tokenizer().encode(text).ids, 10, 0.0, 0
        net = WithoutCache(WORDS).eval()
        for at in range(0, len(ids), size):
            window = torch.tensor([ids[at : at + size]])
            if window.shape[1] > 1:
                with torch.no_grad():
                    scores = net(window)[0, :-1]
                loss += nn.functional.cross_entropy(scores, window[0, 1:], reduction="sum").item()
                count += window.shape[1] - 1
        dynamic = {1: Dim("size", max=CONTEXT)}
        whole = torch.export.export(net, (torch.zeros(1, 3, dtype=torch.long),), dynamic_shapes=(dynamic,))
        lowered(whole).save(self.path("whole.octet"))
        lowered(with_cache(WORDS, length=1)).save(self.path("one.octet"))
        for model in ("m.octet", "whole.octet", "one.octet"):
            said = self.octet(
                "perplexity", self.path(model), "--tokenizer", self.path("tokenizer.json"), "--data",
                self.path("text.txt"), "--window", "10", "--json",
            )[0]  # fmt: skip
            result = json.loads(said)
            self.assertAlmostEqual(result["perplexity"], math.exp(loss / count), delta=0.01)
            self.assertEqual((result["tokens"], result["predicted"]), (len(ids), count))
            loaded = octet_runtime.load(self.path(model), threads=1)
            for given in (text, ids):
                value = octet.perplexity(loaded, given, tokenizer=small_tokenizer(), window=10)
                self.assertAlmostEqual(value, result["perplexity"], delta=1e-4)
        # tokens that the tokenizer appends are not of the text
        ending = small_tokenizer()
        ending.post_processor = processors.TemplateProcessing(single="$A <end>", special_tokens=[("<end>", ending.token_to_id("<end>"))])
        self.assertAlmostEqual(octet.perplexity(loaded, text, tokenizer=ending, window=10), result["perplexity"], delta=1e-4)
        last = octet_runtime.load(self.path("m.octet"), threads=1, logits_to_keep=1)
        for wanted, options in {
            "^perplexity: text: is a text": {"text": "ab"},
            "^perplexity: text: has 1 tokens, want at least 2": {"text": [3]},
            "^perplexity: window: got 1, want at least 2": {"text": [3, 4], "window": 1},
            "^perplexity: model: gives scores for 1 of 3 tokens": {"text": [3, 4, 5]},
            "^perplexity: text: has token 257": {"text": [3, 257]},
        }.items():
            with self.assertRaisesRegex(octet.Error, wanted):
                octet.perplexity(last, **options)

    def test_bench_counts_what_a_token_reads(self):
        result = json.loads(self.octet("bench", self.path("m.octet"), "--prefill", "8", "--decode", "10", "--json")[0])
        net = WithoutCache(WORDS).decoder
        whole = [*net.inward.parameters(), *net.outward.parameters()]
        rows = 2 * 16 * 4  # of the two tables
        least = rows + 4 * sum(weight.numel() for weight in whole)
        self.assertGreaterEqual(result["constant_bytes"], least)
        self.assertLess(result["constant_bytes"], least + WORDS * 16 * 4)
        for name in ("prefill_ms", "median_ms", "p90_ms", "tokens_per_second", "gb_per_second"):
            self.assertGreater(result[name], 0)
        self.assertRegex(self.octet("bench", self.path("m.octet"), "--explain")[1], r"reads 0\.\d MB of constants, .* GB/s; inputs")
        done = subprocess.run([OCTET, "bench", self.path("m.octet"), "--decode", "30"], capture_output=True, text=True)
        self.assertIn("its cache cannot hold position 24", done.stderr)
        said = self.octet("bench", self.path("m.octet"), "--prefill", "4", "--decode", "4")[0]
        self.assertRegex(said, r"^prompt of 4 tokens .* each of 4 tokens median .* reads 0\.\d MB of constants")
        table, line = self.octet("bench", self.path("m.octet"), "--prefill", "4", "--decode", "4", "--explain")
        self.assertRegex(table, r"attention")
        self.assertRegex(line, r"prompt of 4 tokens .* each of 4 tokens median")
        kernels = json.loads(self.octet("bench", self.path("m.octet"), "--prefill", "20", "--explain", "--json")[0])
        self.assertGreater(sum(kernel["us"] or 0 for kernel in kernels["kernels"]), 0)

    def test_ctrl_c_ends_the_text(self):
        lowered(with_cache(WORDS)).save(self.path("m.octet"))
        dynamic = {1: Dim("size", max=2000)}

        class Endless(nn.Module):
            def __init__(self):
                super().__init__()
                self.words, self.out = nn.Embedding(WORDS, 400), nn.Linear(400, WORDS)
                nn.init.zeros_(self.out.weight)
                self.out.bias.data[small_tokenizer().encode("x").ids[0]] = 9

            def forward(self, ids):
                return self.out(self.words(ids))

        program = torch.export.export(Endless(), (torch.zeros(1, 3, dtype=torch.long),), dynamic_shapes=(dynamic,))
        lowered(program).save(self.path("endless.octet"))
        running = subprocess.Popen(
            [OCTET, "generate", self.path("endless.octet"), "--tokenizer", self.path("tokenizer.json"),
             "--prompt", "a", "--max-tokens", "100000"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.assertEqual(running.stdout.read(3), b"xxx")
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=60)
        self.assertEqual(running.returncode, -signal.SIGINT)
        self.assertEqual(said, b"\noctet: interrupted\n")


class Page(PageTest):
    def test_the_page(self):
        folder = self.path("SmolLM2-135M-Instruct")
        os.mkdir(folder)
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
        tokenizer.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
        tokenizer.train_from_iterator(["The capital of France is Paris. Why is the sky blue?"], trainer)
        tokenizer.add_special_tokens([AddedToken(word, special=True) for word in ("<|im_start|>", "<|im_end|>")])
        tokenizer.save(os.path.join(folder, "tokenizer.json"))
        torch.manual_seed(0)
        config = LlamaConfig(
            vocab_size=tokenizer.get_vocab_size(), hidden_size=64, intermediate_size=128, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256, tie_word_embeddings=True,
        )  # fmt: skip
        LlamaForCausalLM(config).save_pretrained(folder)
        with open(os.path.join(folder, "tokenizer_config.json"), "w", encoding="utf-8") as file:
            json.dump({"chat_template": CHATML}, file)
        with open(self.path("text.txt"), "w", encoding="utf-8") as file:
            file.write("The sky is blue over France. " * 10)
        self.run_page(PAGE, "../python/test_language_model.py")
        message = "Why is the sky blue?"
        files = [self.path("model.octet"), os.path.join(folder, "tokenizer.json")]
        said = self.octet("generate", files[0], "--tokenizer", files[1], "--chat", "--prompt", message)[0]
        example = subprocess.run([os.path.join(os.path.dirname(OCTET), "octet_generate"), *files, message], capture_output=True)
        self.assertEqual(example.returncode, 0, example.stderr)
        self.assertEqual(printable(example.stdout.decode()), without_escapes(said.removesuffix("\n")))
        self.a_size_gets_the_best_mix()

    def a_size_gets_the_best_mix(self):
        size = 1.15 * os.path.getsize(self.path("model.octet"))  # of 4 bits
        program, windows = torch.export.load(self.path("model.pt2")), torch.load(self.path("windows.pt"))
        tuned = octet.tune(program, "x86", mode="weight-only", calibration=windows, max_size=size / 1e6)
        self.assertTrue(tuned.reached)
        self.assertLessEqual(tuned.best["bytes"], size)
        four = next(trial for trial in tuned.trials if trial["label"] == "weights of 4 bits")
        self.assertRegex(tuned.best["label"], "weights of [34] to 8 bits")
        self.assertLess(tuned.best["divergence"], 0.9 * four["divergence"])
        self.assertIn("model.model.layers.1.self_attn.v_proj", tuned.config["module_name"])
        octet.lower(tuned, "onednn").save(self.path("mixed.octet"))
        self.assertLessEqual(os.path.getsize(self.path("mixed.octet")), 1.03 * size)  # another backend


if __name__ == "__main__":
    unittest.main()
