"""Vision, audio and two-tower models of transformers with small configurations."""
import functools

import data
from entry import Entry, Named
from language import LAYERS, USUAL, WORDS, configuration

VIT = {key: value for key, value in USUAL.items() if key != "max_position_embeddings"}
SIZE = 96
SPEECH = {**VIT, "conv_dim": (64,) * 4, "conv_stride": (5, 4, 4, 4), "conv_kernel": (10, 8, 4, 4),
          "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4,
          "num_feat_extract_layers": 4, "vocab_size": 32}
DETECTOR = {"d_model": 128, "encoder_layers": LAYERS, "decoder_layers": LAYERS, "num_queries": 20,
            "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 256,
            "decoder_ffn_dim": 256}

# Type: (class, options, output); images of side SIZE unless told.
VISION = {
    "beit": ("AutoModel", {**VIT, "image_size": SIZE, "use_relative_position_bias": True}),
    "bit": ("AutoModel", {"embedding_size": 32, "hidden_sizes": [32, 64, 96, 128],
                          "depths": [1, 1, 1, 1], "num_groups": 8}),
    "clip_vision_model": ("CLIPVisionModel", {**VIT, "image_size": SIZE, "patch_size": 16}),
    "convnext": ("AutoModel", {"depths": [1, 1, 2, 1], "hidden_sizes": [32, 64, 96, 128]}),
    "convnextv2": ("AutoModel", {"depths": [1, 1, 2, 1], "hidden_sizes": [32, 64, 96, 128]}),
    "data2vec-vision": ("AutoModel", {**VIT, "image_size": SIZE}),
    "deit": ("AutoModel", {**VIT, "image_size": SIZE}),
    "dinov2": ("AutoModel", {"hidden_size": 128, "num_hidden_layers": LAYERS, "image_size": SIZE,
                             "num_attention_heads": 4, "patch_size": 16}),
    "dpt": ("AutoModelForDepthEstimation", {
        **VIT, "num_hidden_layers": 4, "image_size": SIZE, "backbone_out_indices": [0, 1, 2, 3],
        "neck_hidden_sizes": [16, 32, 64, 64], "fusion_hidden_size": 32}),
    "efficientnet": ("AutoModel", {"image_size": SIZE, "width_coefficient": 1.0,
                                   "depth_coefficient": 1.0, "hidden_dim": 1280}),
    "focalnet": ("AutoModel", {"image_size": SIZE, "embed_dim": 32, "depths": [1, 1, 2, 1]}),
    "hiera": ("AutoModel", {"image_size": [SIZE, SIZE], "embed_dim": 32, "depths": [1, 1, 2, 1],
                            "masked_unit_size": [8, 8]}),
    "ijepa": ("AutoModel", {**VIT, "image_size": SIZE}),
    "mobilenet_v1": ("AutoModel", {"depth_multiplier": 0.5}),
    "mobilenet_v2": ("AutoModel", {"depth_multiplier": 0.5}),
    "mobilevit": ("AutoModel", {"hidden_sizes": [48, 64, 80], "image_size": SIZE,
                                "neck_hidden_sizes": [16, 16, 24, 32, 48, 64, 96]}),
    "mobilevitv2": ("AutoModel", {"width_multiplier": 0.5}),
    "poolformer": ("AutoModel", {"hidden_sizes": [32, 64, 96, 128], "depths": [1, 1, 2, 1]}),
    "pvt": ("AutoModel", {"image_size": SIZE, "hidden_sizes": [32, 64, 96, 128],
                          "depths": [1, 1, 1, 1], "num_attention_heads": [1, 2, 3, 4]}),
    "regnet": ("AutoModel", {"hidden_sizes": [32, 64, 96, 128], "depths": [1, 1, 2, 1],
                             "groups_width": 16}),
    "resnet": ("AutoModel", {"hidden_sizes": [64, 96, 128, 192], "depths": [1, 1, 1, 1]}),
    "segformer": ("AutoModelForSemanticSegmentation", {
        "hidden_sizes": [32, 32, 64, 96], "depths": [1, 1, 1, 1], "decoder_hidden_size": 64}),
    "siglip_vision_model": ("SiglipVisionModel", {**VIT, "image_size": SIZE}),
    "swin": ("AutoModel", {"image_size": SIZE, "embed_dim": 32, "depths": [1, 1, 2, 1],
                           "num_heads": [1, 2, 4, 8], "window_size": 3}),
    "swin2sr": ("AutoModelForImageToImage", {"image_size": SIZE, "embed_dim": 60, "depths": [2],
                                             "num_heads": [6], "window_size": 8}),
    "swinv2": ("AutoModel", {"image_size": SIZE, "embed_dim": 32, "depths": [1, 1, 2, 1],
                             "num_heads": [1, 2, 4, 8]}),
    "upernet": ("AutoModelForSemanticSegmentation", {"hidden_size": 64}),
    "vit": ("AutoModel", {**VIT, "image_size": SIZE}),
    "vit_msn": ("AutoModel", {**VIT, "image_size": SIZE}),
    "vitdet": ("AutoModel", {"hidden_size": 128, "num_hidden_layers": LAYERS, "image_size": SIZE,
                             "num_attention_heads": 4, "use_relative_position_embeddings": True,
                             "window_size": 3, "window_block_indices": [0]}),
    "yolos": ("AutoModelForObjectDetection", {**VIT, "image_size": [SIZE, SIZE],
                                              "num_detection_tokens": 20}),
}

AUDIO = {
    "audio-spectrogram-transformer": ("AutoModel", "input_values",
                                      {**VIT, "max_length": 128, "num_mel_bins": 64},
                                      functools.partial(data.spectrograms, 64, 128, False)),
    "hubert": ("AutoModelForCTC", "input_values", SPEECH, functools.partial(data.sounds, 8000)),
    "sew": ("AutoModelForCTC", "input_values", {**SPEECH, "squeeze_factor": 2},
            functools.partial(data.sounds, 8000)),
    "unispeech": ("AutoModelForCTC", "input_values", SPEECH, functools.partial(data.sounds, 8000)),
    "wav2vec2": ("AutoModelForCTC", "input_values", SPEECH, functools.partial(data.sounds, 8000)),
    "wav2vec2-conformer": ("AutoModelForCTC", "input_values",
                           {**SPEECH, "position_embeddings_type": "relative",
                            "conv_depthwise_kernel_size": 15, "max_source_positions": 200},
                           functools.partial(data.sounds, 8000)),
    "wavlm": ("AutoModelForCTC", "input_values", {**SPEECH, "num_buckets": 32},
              functools.partial(data.sounds, 8000)),
}


def _single(family, name, kind, options):
    import transformers
    net = getattr(transformers, family)
    config = configuration(kind, options)
    net = net.from_config(config) if family.startswith("Auto") else net(config)
    return Named(net.eval(), (name,))


def _whisper():
    import transformers
    net = transformers.WhisperForConditionalGeneration(configuration("whisper", {
        "vocab_size": WORDS, "num_mel_bins": 40, "max_source_positions": 100, "d_model": 128,
        "encoder_layers": LAYERS, "decoder_layers": LAYERS, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 384, "decoder_ffn_dim": 384,
        "max_target_positions": 64, "use_cache": False, "pad_token_id": 0, "bos_token_id": 1,
        "eos_token_id": 2, "decoder_start_token_id": 1}))
    return Named(net.eval(), ("input_features", "decoder_input_ids"))


def _speech_to_text():
    import transformers
    net = transformers.Speech2TextForConditionalGeneration(configuration("speech_to_text", {
        "vocab_size": WORDS, "input_feat_per_channel": 40, "d_model": 128,
        "max_source_positions": 400, "encoder_layers": LAYERS, "decoder_layers": LAYERS,
        "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 384,
        "decoder_ffn_dim": 384,
        "conv_channels": 128, "max_target_positions": 64, "use_cache": False}))
    return Named(net.eval(), ("input_features", "decoder_input_ids"))


def _detector(kind):
    import transformers
    backbone = transformers.ResNetConfig(hidden_sizes=[64, 96, 128, 192], depths=[1, 1, 1, 1],
                                         out_features=["stage4"])
    config = configuration(kind, {**DETECTOR, "use_timm_backbone": False, "backbone": None,
                                  "use_pretrained_backbone": False, "backbone_config": backbone})
    net = transformers.AutoModelForObjectDetection.from_config(config)
    return Named(net.eval(), ("pixel_values", "pixel_mask"), "logits")


def _clip():
    import transformers
    parts = {"text_config": {**USUAL, "vocab_size": WORDS, "eos_token_id": 2},
             "vision_config": {**VIT, "image_size": SIZE, "patch_size": 16}}
    net = transformers.CLIPModel(transformers.CLIPConfig(projection_dim=64, **parts))
    return Named(net.eval(), ("input_ids", "attention_mask", "pixel_values"), "image_embeds")


def _pixels_and_mask():
    import torch
    return tuple([(x, torch.ones(1, SIZE, SIZE, dtype=torch.long)) for (x,) in part]
                 for part in data.images(SIZE))


def entries():
    for kind, (family, options) in VISION.items():
        yield Entry("transformers/" + kind,
                    functools.partial(_single, family, "pixel_values", kind, options),
                    functools.partial(data.images, SIZE))
    for kind, (family, name, options, values) in AUDIO.items():
        yield Entry("transformers/" + kind,
                    functools.partial(_single, family, name, kind, options), values)
    spectra = functools.partial(data.spectrograms, 40, 200)
    words = functools.partial(data.ids, 16, WORDS)
    yield Entry("transformers/whisper", _whisper, lambda: data.joined(spectra(), words()))
    rows = functools.partial(data.spectrograms, 40, 200, False)
    yield Entry("transformers/speech_to_text", _speech_to_text,
                lambda: data.joined(rows(), words()))
    for kind in ("detr", "conditional_detr"):
        yield Entry("transformers/" + kind, functools.partial(_detector, kind), _pixels_and_mask)
    yield Entry("transformers/clip", _clip,
                lambda: data.joined(data.tokens(32, WORDS), data.images(SIZE)))
