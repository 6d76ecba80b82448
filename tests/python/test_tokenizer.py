"""The tokenizers of C++ equal those of the package tokenizers, and chat prompts equal what Jinja writes."""

import json
import os
import random
import struct
import subprocess
import time
import unittest

import jinja2
from package_test import PackageTest
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

TOKENS_OF = os.path.join(os.environ["OCTET_BUILD"], "bin", "tokens_of")
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace("{1,3}", "")
CAPITALS, SMALL = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
REST = r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
TEKKEN = rf"[^\r\n\p{{L}}\p{{N}}]?{CAPITALS}*{SMALL}+|[^\r\n\p{{L}}\p{{N}}]?{CAPITALS}+{SMALL}*|\p{{N}}|{REST}"
CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
)
DEEPSEEK = (
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
    "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"
)
SAMPLE = """The quick brown fox can't won't it'S IT'LL they'Re naïve café 1234567890 3.14159 ½ ² Ⅷ ١٢٣
Größe Straße Übung Ελληνικά γλώσσα Русский текст ёлка 日本語のテキスト 漢字かな交じり文 中文文本 한국어 텍스트
العربية نص עברית טקסט हिन्दी पाठ ไทย ข้อความ ქართული Հայերեն বাংলা தமிழ் 👩‍👩‍👧‍👦 🇩🇪 😀 👍🏽 e\u0301 A\u030a
\u1e9b\u0323 \ufb01 \u2126 \u212b '\u017f \u212a def f(x):\n\treturn x**2  # tabs\n\n\n    indent   trailing   \r\n\r\n
<div class="a">&nbsp;</div> https://example.org/?q=1&b=[2] $100 €5 \u00a0nbsp\u2003em\u3000 zero\u200bwidth"""
PIECES = ["'s", "'LL", " ", "  ", "\n", "\r\n", "1", "23", "É", "<s>", "<begin>", " <end> ", "norm", "<right>  "]
PIECES += ["\u0301", "\u0327", "각", "ᄀ", "ᅡ", "ᆨ", "\u3099か", "<0x41>", "x,y!"]


def texts(count, seed):
    choose = random.Random(seed)
    words = SAMPLE.split(" ")
    planes = [(32, 0x250), (0x250, 0x3000), (0x3000, 0xD800), (0xE000, 0x20000), (0x20000, 0x110000)]
    for _ in range(count):
        kind, length = choose.randrange(5), choose.randrange(15)
        if kind == 0:
            yield choose.choice([" ", "  ", "\n", "\t"]).join(choose.choices(words, k=length))
        elif kind == 1:
            yield "".join(choose.choices(SAMPLE, k=2 * length))
        elif kind == 2:
            yield "".join(chr(choose.randrange(*choose.choice(planes))) for _ in range(length))
        elif kind == 3:
            yield "".join(choose.choices(PIECES, k=length))
        else:
            yield choose.choice(words) * length + choose.choice(["", "\n", " "])


def byte_level(splits, normalizer=None, post=None, whole=False):
    tokenizer = Tokenizer(models.BPE(ignore_merges=whole))
    tokenizer.pre_tokenizer, tokenizer.decoder = splits, decoders.ByteLevel()
    if normalizer:
        tokenizer.normalizer = normalizer
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        [SAMPLE, *texts(100, 7)],
        trainers.BpeTrainer(
            vocab_size=900, special_tokens=["<begin>", "<end>"], initial_alphabet=alphabet, show_progress=False
        ),
    )
    tokenizer.add_special_tokens([AddedToken("<right>", rstrip=True, special=True, normalized=False)])
    tokenizer.add_tokens([AddedToken("norm"), AddedToken("<s>", lstrip=True, rstrip=True)])
    if post:
        tokenizer.post_processor = post
    return tokenizer


def bytes_only(**options):
    return pre_tokenizers.ByteLevel(**{"add_prefix_space": False, **options})


def split_by(*regexes):
    splits = [pre_tokenizers.Split(Regex(regex), "isolated") for regex in regexes]
    return pre_tokenizers.Sequence([*splits, bytes_only(use_regex=False)])


def around(before, after):
    ids = [("<begin>", 0), ("<end>", 1)]
    template = processors.TemplateProcessing(single=f"{before} $A {after}".strip(), special_tokens=ids)
    return processors.Sequence([processors.ByteLevel(trim_offsets=False), template])


def spaces_marked(kind):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    marks = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    if kind == "llama2":
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        tokenizer.decoder = decoders.Sequence([*marks, decoders.Strip(" ", 1, 0)])
    elif kind == "gemma":
        tokenizer.normalizer = normalizers.Replace(" ", "▁")
        tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
        tokenizer.decoder = decoders.Sequence(marks)
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=kind, split=kind != "never")
        tokenizer.decoder = decoders.Metaspace(prepend_scheme=kind)
    special = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=700, limit_alphabet=120, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator([SAMPLE, *texts(60, 5)], trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    file = json.loads(tokenizer.to_str())
    file["added_tokens"] = file["added_tokens"][:3]  # bytes are tokens as others are
    return Tokenizer.from_str(json.dumps(file))


BEHAVIORS = pre_tokenizers.Sequence(
    [
        pre_tokenizers.Split(",", "merged_with_previous"),
        pre_tokenizers.Split(Regex("x+|!"), "merged_with_next"),
        pre_tokenizers.Split("\n", "removed"),
        pre_tokenizers.Split(Regex(r"\d"), "contiguous"),
        pre_tokenizers.Split(Regex(r"[a-z]+|."), "isolated", True),
        bytes_only(),
    ]
)
FAMILIES = {
    "gpt-2": lambda: byte_level(bytes_only()),
    "with a space before": lambda: byte_level(bytes_only(add_prefix_space=True)),
    "smollm": lambda: byte_level(pre_tokenizers.Sequence([pre_tokenizers.Digits(True), bytes_only()])),
    "digits together": lambda: byte_level(pre_tokenizers.Sequence([pre_tokenizers.Digits(False), bytes_only()])),
    "llama-bpe": lambda: byte_level(split_by(LLAMA3), whole=True, post=around("<begin>", "")),
    "with an end": lambda: byte_level(split_by(LLAMA3), post=around("<begin>", "<end>")),
    "qwen2": lambda: byte_level(split_by(QWEN2), normalizers.NFC()),
    "tekken": lambda: byte_level(split_by(TEKKEN), whole=True, post=around("<begin>", "")),
    "cl100k": lambda: byte_level(split_by(CL100K)),
    "deepseek": lambda: byte_level(split_by(r"\p{N}{1,3}", "[一-龥\u3040-ゟ゠-ヿ]+", DEEPSEEK)),
    "behaviors": lambda: byte_level(BEHAVIORS),
    **{kind: lambda kind=kind: spaces_marked(kind) for kind in ("llama2", "gemma", "always", "first", "never")},
}


def gguf(values):
    """A GGUF file without tensors."""
    numbers = {bool: (7, "<?"), int: (5, "<i"), float: (6, "<f")}

    def text(value):
        return struct.pack("<Q", len(value.encode())) + value.encode()

    def kind_and_bytes(value):
        if isinstance(value, str):
            return 8, text(value)
        if isinstance(value, list):
            parts = [kind_and_bytes(each) for each in value]
            return 9, struct.pack("<IQ", parts[0][0], len(parts)) + b"".join(each for _, each in parts)
        kind, form = numbers[type(value)]
        return kind, struct.pack(form, value)

    parts = [b"GGUF", struct.pack("<IQQ", 3, 0, len(values))]
    for name, value in values.items():
        kind, data = kind_and_bytes(value)
        parts += [text(name), struct.pack("<I", kind), data]
    return b"".join(parts)


def gguf_of(tokenizer, name):
    """What a conversion of the tokenizer to GGUF stores."""
    model = json.loads(tokenizer.to_str())
    words = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    added = {id: token.special for id, token in tokenizer.get_added_tokens_decoder().items()}
    kinds = [1 if id not in added else 3 if added[id] else 4 for _, id in words]
    values = {"general.name": "seeded", "tokenizer.ggml.tokens": [word for word, _ in words]}
    if name == "llama2":
        kinds = [2 if word == "<unk>" else 6 if word.startswith("<0x") else kind for (word, _), kind in zip(words, kinds)]
        rank = {"".join(merge): -float(i) for i, merge in enumerate(model["model"]["merges"])}
        values["tokenizer.ggml.scores"] = [rank.get(word, -1e6) for word, _ in words]
        values |= {"tokenizer.ggml.model": "llama", "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.unknown_token_id": 0}
    else:
        values["tokenizer.ggml.merges"] = [" ".join(merge) for merge in model["model"]["merges"]]
        values |= {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": name, "tokenizer.ggml.bos_token_id": 0}
    return values | {"tokenizer.ggml.token_type": kinds}


class TokensTest(PackageTest):
    def run_on(self, tokenizer, lines, *more):
        with open(self.path("texts.json"), "w", encoding="utf-8") as file:
            json.dump(lines, file)
        return subprocess.run([TOKENS_OF, tokenizer, self.path("texts.json"), *more], capture_output=True, text=True)

    def refusal(self, path, lines=("a",), *more):
        done = self.run_on(path, list(lines), *more)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
        return done.stderr


class Tokens(TokensTest):
    def check_same(self, tokenizer, path, lines):
        done = self.run_on(path, lines)
        self.assertEqual(done.returncode, 0, done.stderr)
        results = [json.loads(line) for line in done.stdout.split("\n")[:-1]]
        self.assertEqual(len(results), len(lines))
        for line, (ids, text) in zip(lines, results):
            self.assertEqual(ids, tokenizer.encode(line).ids, repr(line))
            self.assertEqual(text, tokenizer.decode(ids), repr(line))

    def test_tokens_are_those_of_the_package(self):
        lines = [SAMPLE, "", *texts(300, 1)]
        for name, make in FAMILIES.items():
            with self.subTest(name):
                tokenizer = make()
                tokenizer.save(self.path("tokenizer.json"))
                self.check_same(tokenizer, self.path("tokenizer.json"), lines)

    def test_gguf_files_have_the_same_tokenizer(self):
        # GGUF does not say which added tokens take spaces, or are looked for in normalized text, and
        # the trainer has seen the spelling of a byte as text.
        added = ("<s>", "<right>", "norm", "<0x41>")
        lines = [SAMPLE, *(line for line in texts(300, 2) if not any(token in line for token in added))]
        for name in ("gpt-2", "smollm", "llama-bpe", "qwen2", "tekken", "llama2"):
            with self.subTest(name):
                tokenizer = FAMILIES[name]()
                with open(self.path("model.gguf"), "wb") as file:
                    file.write(gguf(gguf_of(tokenizer, name)))
                self.check_same(tokenizer, self.path("model.gguf"), lines)

    def test_an_unknown_component_is_named(self):
        base = json.loads(FAMILIES["qwen2"]().to_str())
        wanted = {
            "has the pre-tokenizer BertPreTokenizer, want one of ByteLevel, Split": {
                "pre_tokenizer": {"type": "BertPreTokenizer"}
            },
            "has the normalizer NFKC, want one of NFC": {
                "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFKC"}]}
            },
            "has the decoder WordPiece": {"decoder": {"type": "WordPiece"}},
            "has the post-processor RobertaProcessing": {"post_processor": {"type": "RobertaProcessing"}},
            "has the model Unigram, want BPE": {"model": {"type": "Unigram", "vocab": []}},
            "has a model with dropout 0.5, want null": {"model": {**base["model"], "dropout": 0.5}},
            "has truncation": {"truncation": {"max_length": 8}},
            "has the merge [\"q\",\"\\u0001\"]": {"model": {**base["model"], "merges": [["q", "\u0001"]]}},
            "with single_word, want false": {"added_tokens": [{"id": 1, "content": "a", "single_word": True}]},
            "has the token id -4": {"added_tokens": [{"id": -4, "content": "a"}]},
            "has a group (?<= at character": {
                "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(?<=a)b"}, "behavior": "Removed", "invert": False}
            },
            "\\p{Han}": {
                "pre_tokenizer": {"type": "Split", "pattern": {"Regex": r"\p{Han}"}, "behavior": "Removed", "invert": False}
            },
            "has no model": {"model": None, "added_tokens": 0},
        }
        for text, change in wanted.items():
            with self.subTest(text):
                changed = {name: value for name, value in {**base, **change}.items() if name != "model" or value}
                with open(self.path("tokenizer.json"), "w", encoding="utf-8") as file:
                    json.dump(changed, file)
                self.assertIn(text, self.refusal(self.path("tokenizer.json")))

    def test_damaged_files_are_refused(self):
        whole = gguf(gguf_of(FAMILIES["smollm"](), "smollm"))
        choose = random.Random(3)
        sizes = sorted({4, 8, 20, 24, 30, *(choose.randrange(24, len(whole)) for _ in range(12))})
        for size in sizes:
            with self.subTest(size), open(self.path("cut.gguf"), "wb") as file:
                file.write(whole[:size])
                file.flush()
                self.assertIn("is cut off or damaged", self.refusal(self.path("cut.gguf")))
        for _ in range(60):
            data = bytearray(whole)
            for _ in range(3):
                data[choose.randrange(min(len(data), 4000))] = choose.randrange(256)
            with open(self.path("bad.gguf"), "wb") as file:
                file.write(data)
            self.assertIn(self.run_on(self.path("bad.gguf"), ["a"]).returncode, (0, 1))
        values = gguf_of(FAMILIES["smollm"](), "smollm")
        for text, change in {
            "splits text as 'poro', want one of gpt-2": {"tokenizer.ggml.pre": "poro"},
            "has the tokenizer 'bert', want gpt2 or llama": {"tokenizer.ggml.model": "bert"},
            "want less than": {"tokenizer.ggml.eos_token_id": 100000},
        }.items():
            with self.subTest(text), open(self.path("other.gguf"), "wb") as file:
                file.write(gguf({**values, **change}))
                file.flush()
                self.assertIn(text, self.refusal(self.path("other.gguf")))
        for text, data in {"is empty": b"", "is not a tokenizer.json": b"{", "nests too deep": b"[" * 100000}.items():
            with self.subTest(text), open(self.path("tokenizer.json"), "wb") as file:
                file.write(data)
                file.flush()
                self.assertIn(text, self.refusal(self.path("tokenizer.json")))
        self.assertIn("cannot be read", self.refusal(self.path("missing.json")))


LLAMA31_HEAD = (
    '{{- bos_token }}{%- if not date_string is defined %}{%- set date_string = "26 Jul 2024" %}{%- endif %}'
    '{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}{{- "Cutting Knowledge Date: December 2023\\n" }}'
    '{{- "Today Date: " + date_string + "\\n\\n" }}{{- "<|eot_id|>" }}'
)
LLAMA3_REST = (
    "{% for message in messages %}{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + "
    "message['content'] | trim + '<|eot_id|>' }}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"
)
CHATML_REST = (
    "{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
TEMPLATES = {
    "ChatML": "{% for message in messages %}" + CHATML_REST,
    "SmolLM2": "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n"
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}" + CHATML_REST,
    "Qwen2.5": "{%- if messages[0]['role'] == 'system' %}{{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}"
    "{%- else %}{{- \"<|im_start|>system\\nYou're Qwen, created by Alibaba Cloud.<|im_end|>\\n\" }}{%- endif %}"
    "{% for message in messages %}" + CHATML_REST,
    "Llama 3.1": LLAMA31_HEAD + LLAMA3_REST,
    "Llama 3.2": LLAMA31_HEAD.replace('"26 Jul 2024"', "strftime_now('%d %b %Y')") + LLAMA3_REST,
    "Llama 3": "{{ bos_token }}" + LLAMA3_REST,
    "Gemma": "{{ bos_token }}{% for message in messages %}{{ '<start_of_turn>' + message['role'] + '\n' + "
    "message['content'] | trim + '<end_of_turn>\n' }}{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model\n'}}"
    "{% endif %}",
    "Phi-3": "{% for message in messages %}{% if message['role'] == 'user' %}{{'<|user|>\n' + message['content'] + '<|end|>\n'}}"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}",
    "Mistral": "{{ bos_token }}{% for message in messages %}{{ '[INST] ' + message['content'] + ' [/INST]' }}{% endfor %}",
}


class Chat(TokensTest):
    def save(self, template, begin="<begin>"):
        FAMILIES["gpt-2"]().save(self.path("tokenizer.json"))
        with open(self.path("tokenizer_config.json"), "w", encoding="utf-8") as file:
            json.dump({"bos_token": {"content": begin}, "chat_template": template}, file)
        return self.path("tokenizer.json")

    def test_prompts_are_those_of_the_template(self):
        for name, template in TEMPLATES.items():
            with self.subTest(name):
                form = jinja2.Environment(trim_blocks=True, lstrip_blocks=True).from_string(template)
                for message in ("Hello 'you'", " two\nlines \n"):
                    want = form.render(
                        messages=[{"role": "user", "content": message}],
                        add_generation_prompt=True,
                        bos_token="<begin>",
                        strftime_now=time.strftime,
                    )
                    done = self.run_on(self.save(template), [message], "--chat")
                    self.assertEqual(done.stderr, "")
                    self.assertEqual(json.loads(done.stdout), want)

    def test_other_templates_are_refused(self):
        dated = TEMPLATES["SmolLM2"].replace("Hugging Face", "' + strftime_now('%Y') + '")
        for template in ("{{ 'Human: ' + messages[0]['content'] }}", dated):
            self.assertIn("of another family than ChatML, Llama", self.refusal(self.save(template), ["a"], "--chat"))
        with open(self.path("tokenizer_config.json"), "w", encoding="utf-8") as file:
            file.write("{")
        self.assertIn("a wrong tokenizer_config.json: ", self.refusal(self.path("tokenizer.json"), ["a"], "--chat"))
        os.remove(self.path("tokenizer_config.json"))
        self.assertIn("has no chat template", self.refusal(self.path("tokenizer.json"), ["a"], "--chat"))


if __name__ == "__main__":
    unittest.main()
