"""All models of the zoo, and the dozen of its short form."""
import language
import recurrent
import sight_and_sound
import timm_models
import vision

SOURCES = (vision, timm_models, language, sight_and_sound, recurrent)

# What the packages of tools/setup.sh give, tiny, one of each kind.
SHORT = (
    "torchvision/mnasnet0_5", "torchvision/mobilenet_v3_small", "torchvision/shufflenet_v2_x0_5",
    "torchvision/squeezenet1_1", "transformers/bert", "transformers/gpt2", "transformers/llama",
    "transformers/t5", "transformers/vit", "transformers/segformer", "recurrent/lstm_tagger",
    "recurrent/grucell_steps",
)


def all_entries():
    return [entry for source in SOURCES for entry in source.entries()]


def short_entries():
    found = {entry.name: entry for entry in all_entries()}
    return [found[name] for name in SHORT]
