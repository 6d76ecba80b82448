"""Language models of transformers with small configurations: encoders, decoders, encoder-decoders.
All take token ids and a padding mask, from which they make their own masks and positions."""
import functools

import data
from entry import Entry, Named

WORDS, LENGTH, DECODED = 1000, 48, 16
WIDTH, INNER, LAYERS, HEADS = 128, 384, 2, 4

# What most configurations call their sizes.
USUAL = {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
         "intermediate_size": INNER, "max_position_embeddings": 128}
GROUPED = {**USUAL, "num_key_value_heads": 2}
GPT = {"n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "n_positions": 128}
EXPERTS = {**GROUPED, "num_local_experts": 4, "num_experts": 4, "moe_intermediate_size": 96,
           "num_experts_per_tok": 2}
PAIR = {"d_model": WIDTH, "encoder_layers": LAYERS, "decoder_layers": LAYERS,
        "encoder_attention_heads": HEADS, "decoder_attention_heads": HEADS,
        "encoder_ffn_dim": INNER, "decoder_ffn_dim": INNER, "max_position_embeddings": 128}
T5 = {"d_model": WIDTH, "d_kv": 32, "d_ff": INNER, "num_layers": LAYERS,
      "num_decoder_layers": LAYERS, "num_heads": HEADS}

ENCODERS = {
    "albert": {**USUAL, "embedding_size": 64}, "bert": USUAL,
    "big_bird": {**USUAL, "attention_type": "original_full"}, "camembert": USUAL,
    "canine": {**USUAL, "num_hash_functions": 2, "local_transformer_stride": 16},
    "convbert": {**USUAL, "embedding_size": WIDTH},
    "deberta": {**USUAL, "relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
    "deberta-v2": {**USUAL, "relative_attention": True, "pos_att_type": ["c2p", "p2c"],
                   "position_buckets": 32, "share_att_key": True},
    "distilbert": {"dim": WIDTH, "n_layers": LAYERS, "n_heads": HEADS, "hidden_dim": INNER,
                   "max_position_embeddings": 128},
    "electra": {**USUAL, "embedding_size": 64}, "ernie": USUAL,
    "esm": {**USUAL, "position_embedding_type": "rotary", "pad_token_id": 1, "mask_token_id": 2},
    "fnet": USUAL,
    "ibert": USUAL,
    "longformer": {**USUAL, "attention_window": 16},
    "mobilebert": {**USUAL, "embedding_size": 64, "intra_bottleneck_size": 64,
                   "true_hidden_size": 64},
    "modernbert": {**USUAL, "pad_token_id": 0, "local_attention": 16,
                   "global_attn_every_n_layers": 2},
    "mpnet": USUAL,
    "rembert": {**USUAL, "input_embedding_size": 64}, "roberta": USUAL, "roformer": USUAL,
    "squeezebert": {**USUAL, "embedding_size": WIDTH}, "xlm-roberta": USUAL,
    "xlnet": {"d_model": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "d_inner": INNER},
}

DECODERS = {
    "bloom": {"hidden_size": WIDTH, "n_layer": LAYERS, "n_head": HEADS},
    "codegen": {**GPT, "rotary_dim": 16}, "cohere": GROUPED,
    "falcon": {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS},
    "gemma": {**GROUPED, "head_dim": 32},
    "gemma2": {**GROUPED, "head_dim": 32, "sliding_window": 16, "query_pre_attn_scalar": 32},
    "gemma3_text": {**GROUPED, "head_dim": 32, "sliding_window": 16, "query_pre_attn_scalar": 32},
    "glm": {**GROUPED, "head_dim": 32, "pad_token_id": 0}, "gpt2": GPT,
    "gpt_bigcode": GPT,
    "gpt_neo": {"hidden_size": WIDTH, "num_layers": LAYERS, "num_heads": HEADS, "window_size": 16,
                "attention_types": [[["global", "local"], 1]], "max_position_embeddings": 128},
    "gpt_neox": USUAL, "gptj": {**GPT, "rotary_dim": 16}, "granite": GROUPED, "llama": GROUPED,
    "mamba": {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "state_size": 8},
    "mamba2": {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "state_size": 16, "num_heads": 8,
               "head_dim": 32, "n_groups": 1, "chunk_size": 16},
    "mistral": {**GROUPED, "sliding_window": 16}, "mixtral": EXPERTS,
    "mpt": {"d_model": WIDTH, "n_layers": LAYERS, "n_heads": HEADS, "max_seq_len": 128},
    "olmo2": GROUPED,
    "olmoe": EXPERTS,
    "opt": {"hidden_size": WIDTH, "word_embed_proj_dim": WIDTH, "num_hidden_layers": LAYERS,
            "num_attention_heads": HEADS, "ffn_dim": INNER, "max_position_embeddings": 128},
    "persimmon": USUAL, "phi": USUAL, "phi3": {**GROUPED, "pad_token_id": 0}, "qwen2": GROUPED,
    "qwen2_moe": {**EXPERTS, "shared_expert_intermediate_size": 96},
    "qwen3": {**GROUPED, "head_dim": 32}, "smollm3": {**GROUPED, "pad_token_id": 0},
    "stablelm": GROUPED, "starcoder2": GROUPED,
    "xglm": {"d_model": WIDTH, "num_layers": LAYERS, "attention_heads": HEADS, "ffn_dim": INNER,
             "max_position_embeddings": 128},
}

ENCODER_DECODERS = {
    "bart": PAIR, "blenderbot": PAIR, "led": {**PAIR, "attention_window": 16,
                                              "max_encoder_position_embeddings": 128},
    "longt5": {**T5, "local_radius": 7}, "m2m_100": PAIR,
    "marian": {**PAIR, "pad_token_id": 0, "decoder_start_token_id": 0}, "mbart": PAIR, "mt5": T5,
    "pegasus": PAIR, "prophetnet": {"hidden_size": WIDTH, "num_encoder_layers": LAYERS,
                                    "num_decoder_layers": LAYERS, "num_encoder_attention_heads": 4,
                                    "num_decoder_attention_heads": 4, "encoder_ffn_dim": INNER,
                                    "decoder_ffn_dim": INNER, "max_position_embeddings": 128},
    "t5": T5,
}


def configuration(kind, options):
    import transformers
    return transformers.CONFIG_MAPPING[kind](**options)


def _network(family, kind, options):
    import transformers
    words = {} if kind == "canine" else {"vocab_size": WORDS}
    config = configuration(kind, {**words, **options})
    config.use_cache = False
    # Experts as one batched product: the other way is an op that exists in Python alone.
    experts = {"experts_implementation": "batched_mm"} if "num_experts_per_tok" in options else {}
    net = getattr(transformers, family).from_config(config, **experts)
    inputs = ("input_ids", "attention_mask", "decoder_input_ids")
    return Named(net.eval(), inputs)


def entries():
    tokens = functools.partial(data.tokens, LENGTH, WORDS)
    for kind, options in ENCODERS.items():
        yield Entry("transformers/" + kind,
                    functools.partial(_network, "AutoModel", kind, options), tokens)
    for kind, options in DECODERS.items():
        yield Entry("transformers/" + kind,
                    functools.partial(_network, "AutoModelForCausalLM", kind, options), tokens)
    for kind, options in ENCODER_DECODERS.items():
        yield Entry("transformers/" + kind,
                    functools.partial(_network, "AutoModelForSeq2SeqLM", kind, options),
                    functools.partial(data.tokens, LENGTH, WORDS, DECODED))
