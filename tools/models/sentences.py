"""English sentences out of the descriptions of scikit-learn's data sets, as MiniLM's inputs: every second one to calibrate with, the others held out."""
import glob
import os
import re

LENGTH = 128  # tokens, padded
SHORTEST, LONGEST = 40, 400  # characters
LEAST_LETTERS = 0.85  # of all characters, spaces included


def _is_prose(sentence):
    letters = sum(character.isalpha() or character == " " for character in sentence)
    return SHORTEST < len(sentence) < LONGEST and letters > LEAST_LETTERS * len(sentence)


def _all_sentences():
    import sklearn.datasets
    found = []
    for path in sorted(glob.glob(os.path.join(os.path.dirname(sklearn.datasets.__file__), "descr", "*.rst"))):
        with open(path, encoding="utf8") as file:
            paragraphs = [" ".join(text.split()) for text in re.split(r"\n\s*\n", file.read())]
        for paragraph in paragraphs:
            if not re.search(r"[=|<>:`*_]{2}", paragraph):  # neither tables nor markup
                found += filter(_is_prose, re.split(r"(?<=[.!?])\s+(?=[A-Z])", paragraph))
    return list(dict.fromkeys(found))


def sentences(calibration_count, held_out_count, model_folder, is_final=False):
    """Two lists of (sentence, (input_ids, attention_mask)), int64 [1, 128] each: for calibration, and held out. The same on every call. is_final: held out
    are those of the calibration's half that are not calibrated with."""
    from transformers import AutoTokenizer
    tokenizer = AutoTokenizer.from_pretrained(model_folder)

    def encoded(text):
        tokens = tokenizer(text, padding="max_length", truncation=True, max_length=LENGTH, return_tensors="pt")
        return text, (tokens["input_ids"], tokens["attention_mask"])
    found = _all_sentences()
    others = found[0::2][calibration_count:] if is_final else found[1::2]
    return [encoded(text) for text in found[0::2][:calibration_count]], [encoded(text) for text in others[:held_out_count]]
