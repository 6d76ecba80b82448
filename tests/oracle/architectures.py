"""Twenty small models with random weights, one of each family: NAME -> () -> (module, inputs)."""
import torch
import transformers
from torch import nn

IMAGE = (1, 3, 64, 64)
TEXT = dict(vocab_size=128, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)


class Logits(nn.Module):
    """The first tensor of a model of Hugging Face, without a cache."""

    def __init__(self, model, name, **extra):
        super().__init__()
        self.model, self.name, self.extra = model, name, extra

    def forward(self, x):
        return self.model(**{self.name: x}, **self.extra, return_dict=True)[0]


def conv(inputs, outputs, size=3, stride=1, groups=1, act=nn.ReLU):
    layers = [nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False), nn.BatchNorm2d(outputs)]
    return nn.Sequential(*layers, *([act()] if act else []))


class ShuffleUnit(nn.Module):
    def __init__(self, channels):
        super().__init__()
        half = channels // 2
        self.branch = nn.Sequential(conv(half, half, 1), conv(half, half, 3, groups=half, act=None), conv(half, half, 1))

    def forward(self, x):
        left, right = x.chunk(2, dim=1)
        y = torch.cat([left, self.branch(right)], 1)
        n, c, h, w = y.shape
        return y.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)


def shuffle_net():
    units = [conv(3, 16, stride=2), nn.MaxPool2d(3, 2, 1), ShuffleUnit(16), ShuffleUnit(16), conv(16, 32, 1)]
    return nn.Sequential(*units, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))


class DenseBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(conv(8 + 4 * i, 4) for i in range(3))

    def forward(self, x):
        for layer in self.layers:
            x = torch.cat([x, layer(x)], 1)
        return x


def dense_net():
    return nn.Sequential(conv(3, 8, stride=2), DenseBlock(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(20 * 16 * 16, 10))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.middle = conv(3, 8), conv(8, 16, stride=2)
        self.up, self.out = nn.ConvTranspose2d(16, 8, 2, 2), nn.Conv2d(16, 3, 1)

    def forward(self, x):
        high = self.down(x)
        return self.out(torch.cat([high, self.up(self.middle(high))], 1))


class SqueezeExcite(nn.Module):
    def __init__(self):
        super().__init__()
        self.expand, self.project = conv(8, 24, 1, act=nn.SiLU), conv(24, 8, 1, act=None)
        self.pool, self.squeeze, self.excite = nn.AdaptiveAvgPool2d(1), nn.Conv2d(24, 6, 1), nn.Conv2d(6, 24, 1)

    def forward(self, x):
        y = self.expand(x)
        gate = torch.sigmoid(self.excite(nn.functional.silu(self.squeeze(self.pool(y)))))
        return x + self.project(y * gate)


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(3, 16, 16, 16)
        self.tokens = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
        self.channels = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))

    def forward(self, x):
        y = self.patch(x).flatten(2).transpose(1, 2)
        y = y + self.tokens(y.transpose(1, 2)).transpose(1, 2)
        return (y + self.channels(y)).mean(1)


class LSTMClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.lstm, self.head = nn.Embedding(128, 16), nn.LSTM(16, 16, batch_first=True), nn.Linear(16, 4)

    def forward(self, x):
        return self.head(self.lstm(self.embedding(x))[0][:, -1])


class KeywordNet(nn.Module):
    """1-d convolutions over a spectrum."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv1d(20, 16, 3, padding=1), nn.ReLU(), nn.Conv1d(16, 16, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool1d(1))
        self.head = nn.Linear(16, 8)

    def forward(self, x):
        return self.head(self.body(x).flatten(1))


def image(model, config, **settings):
    made = lambda: getattr(transformers, model)(getattr(transformers, config)(**settings))  # noqa: E731
    return lambda: (Logits(made(), "pixel_values"), torch.randn(IMAGE))


def text(model, config, **settings):
    made = lambda: getattr(transformers, model)(getattr(transformers, config)(**settings))  # noqa: E731
    extra = {"use_cache": False} if "CausalLM" in model or "LMHead" in model else {}
    return lambda: (Logits(made(), "input_ids", **extra), torch.randint(0, 128, (1, 8)))


def of(make, *shape):
    return lambda: (make(), torch.randn(shape or IMAGE))


ARCHITECTURES = {
    "ResNet": image("ResNetForImageClassification", "ResNetConfig", embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic"),
    "MobileNetV2": image("MobileNetV2ForImageClassification", "MobileNetV2Config", depth_multiplier=0.25, image_size=64),
    "RegNet": image("RegNetForImageClassification", "RegNetConfig", embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], groups_width=8),
    "ConvNeXt": image("ConvNextForImageClassification", "ConvNextConfig", num_stages=2, hidden_sizes=[8, 16], depths=[1, 1]),
    "ShuffleNetV2": of(shuffle_net),
    "DenseNet": of(dense_net),
    "UNet": of(UNet),
    "squeeze and excite": of(lambda: nn.Sequential(conv(3, 8, stride=2), SqueezeExcite(), nn.Conv2d(8, 4, 1))),
    "MLP-Mixer": of(Mixer),
    "ViT": image("ViTForImageClassification", "ViTConfig", image_size=64, patch_size=16, **TEXT),
    "Swin": image("SwinForImageClassification", "SwinConfig", image_size=64, embed_dim=16, depths=[1, 1], num_heads=[2, 2], window_size=4),
    "SegFormer": image("SegformerForSemanticSegmentation", "SegformerConfig", num_encoder_blocks=2, depths=[1, 1], hidden_sizes=[8, 16],
                       num_attention_heads=[1, 2], sr_ratios=[2, 1], patch_sizes=[7, 3], strides=[4, 2], mlp_ratios=[2, 2], decoder_hidden_size=16),
    "MobileViT": image("MobileViTForImageClassification", "MobileViTConfig", image_size=64, hidden_sizes=[12, 16, 20],
                       neck_hidden_sizes=[8, 8, 12, 12, 16, 20, 32], num_attention_heads=2),
    "BERT": text("BertForSequenceClassification", "BertConfig", **TEXT),
    "ALBERT": text("AlbertForSequenceClassification", "AlbertConfig", embedding_size=16, **TEXT),
    "GPT-2": text("GPT2LMHeadModel", "GPT2Config", vocab_size=128, n_embd=32, n_layer=2, n_head=2),
    "Llama": text("LlamaForCausalLM", "LlamaConfig", num_key_value_heads=1, **TEXT),
    "T5 encoder": text("T5EncoderModel", "T5Config", vocab_size=128, d_model=32, d_kv=16, d_ff=64, num_layers=2, num_heads=2),
    "LSTM": lambda: (LSTMClassifier(), torch.randint(0, 128, (2, 10))),
    "Conv1d": of(KeywordNet, 2, 20, 32),
}
