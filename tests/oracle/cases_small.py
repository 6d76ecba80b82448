"""The small cases: one behavior each."""
import math
import operator
import torch
import torch.nn as nn
import torch.nn.functional as F
from case_registry import *  # noqa: F401,F403
# ==========================================================================
# CASES - small
# ==========================================================================
# ---------------- XNNPACK: convolutions
case("xnn_conv2d", XC, lambda: C2(3, 8, 3, padding=1), [R(2, 3, 10, 10)], tags=["conv"])
case("xnn_conv2d_per_tensor", XT, lambda: C2(3, 8, 3, stride=2), [R(2, 3, 11, 11)], seed=1, tags=["conv"])
case("xnn_conv2d_nobias", XC, lambda: C2(4, 6, (3, 5), padding=(1, 2), bias=False), [R(1, 4, 9, 12)], seed=2, tags=["conv"])
case("xnn_conv2d_depthwise", XC, lambda: C2(8, 8, 3, padding=1, groups=8), [R(1, 8, 8, 8)], seed=4, tags=["conv"])
case("xnn_conv2d_grouped", XC, lambda: C2(8, 12, 3, padding=1, groups=4), [R(1, 8, 8, 8)], seed=6, tags=["conv"])
case("xnn_conv2d_unbatched", XC, lambda: C2(3, 4, 3), [R(3, 8, 8)], seed=7, tags=["conv"])
case("xnn_conv2d_padding_same", XC, lambda: C2(3, 4, 3, padding="same"), [R(1, 3, 8, 8)], seed=8, tags=["conv"], note="exports aten.conv2d.padding - not an XNNPACK target")
case("xnn_conv1d", XC, lambda: C1(4, 8, 5, padding=2), [R(2, 4, 20)], seed=10, tags=["conv"])
case("xnn_conv3d", XC, lambda: nn.Conv3d(2, 4, 3, padding=1), [R(1, 2, 5, 6, 6)], seed=12, tags=["conv"])
case("xnn_conv_relu", XC, lambda: Sq(C2(3, 8, 3), nn.ReLU()), [R(1, 3, 10, 10)], seed=13, tags=["conv"])
case("xnn_conv_relu_inplace", XT, lambda: Sq(C2(3, 8, 3), nn.ReLU(inplace=True)), [R(1, 3, 10, 10)], seed=14, tags=["conv"])
case("xnn_conv_frelu", XC, lambda: Fn(lambda s, x: F.relu(s.c(x)), c=C2(3, 8, 3)), [R(1, 3, 9, 9)], seed=15, tags=["conv"])
case("xnn_conv_relu_two_users", XC, lambda: Fn(lambda s, x: (lambda y: (F.relu(y), s.d(y)))(s.c(x)), c=C2(3, 4, 3), d=C2(4, 4, 1)), [R(1, 3, 8, 8)], seed=16, tags=["conv"], note="conv output also used directly: not fused")
case("xnn_conv_bn", XC, lambda: Sq(C2(3, 8, 3, bias=False), B2(8)), [R(2, 3, 9, 9)], seed=18, tags=["conv", "bn"])
case("xnn_conv_bn_bias", XT, lambda: Sq(C2(3, 8, 3, bias=True), B2(8)), [R(2, 3, 9, 9)], seed=19, tags=["conv", "bn"])
case("xnn_conv_bn_relu", XC, lambda: Sq(C2(3, 8, 3, bias=False), B2(8), nn.ReLU()), [R(2, 3, 9, 9)], seed=20, tags=["conv", "bn"])
case("xnn_conv1d_bn_relu", XC, lambda: Sq(C1(4, 8, 3), B1(8), nn.ReLU()), [R(2, 4, 15)], seed=22, tags=["conv", "bn"])
case("xnn_bn_alone", XC, lambda: Sq(B2(4), C2(4, 4, 1)), [R(2, 4, 5, 5)], seed=24, tags=["bn"], note="bn before conv: not folded")
case("xnn_linear_bn", XC, lambda: Sq(L(6, 8), B1(8)), [R(5, 6)], seed=25, tags=["linear", "bn"])
case("xnn_conv_bn_shared_conv", XC, lambda: Fn(lambda s, x: s.b(s.c(x)) + s.c(x * 0.5), c=C2(3, 3, 3, padding=1), b=B2(3)), [R(1, 3, 6, 6)], seed=26, tags=["conv", "bn"], note="conv weight shared by two conv nodes, one with a bn")
case("xnn_convT2d", XC, lambda: CT2(4, 6, 3, stride=2, padding=1, output_padding=1), [R(1, 4, 6, 6)], seed=27, tags=["convT"])
case("xnn_convT2d_relu", XC, lambda: Sq(CT2(4, 6, 3), nn.ReLU()), [R(1, 4, 6, 6)], seed=29, tags=["convT"])
case("xnn_convT2d_bn", XC, lambda: Sq(CT2(4, 6, 3), B2(6)), [R(1, 4, 6, 6)], seed=30, tags=["convT", "bn"])
case("xnn_convT2d_grouped", XC, lambda: CT2(4, 6, 3, groups=2), [R(1, 4, 6, 6)], seed=31, tags=["convT"], note="groups>1: not annotated by the peer")
case("xnn_convT1d", XC, lambda: CT1(4, 6, 4, stride=2, padding=1), [R(1, 4, 9)], seed=32, tags=["convT"])
case("xnn_conv_two_same_input", XC, lambda: Fn(lambda s, x: s.a(x) + s.b(x), a=C2(3, 4, 3, padding=1), b=C2(3, 4, 1)), [R(1, 3, 8, 8)], seed=33, tags=["conv", "sharing"])
case("xnn_conv_weight_reused", XC, lambda: Fn(lambda s, x: s.a(s.a(x)), a=C2(4, 4, 3, padding=1)), [R(1, 4, 7, 7)], seed=34, tags=["conv", "sharing"], note="same weight used by two convs")
case("xnn_conv_relu6", XC, lambda: Sq(C2(3, 6, 3), nn.ReLU6()), [R(1, 3, 8, 8, s=3.0)], seed=36, tags=["conv", "share"])
case("xnn_conv_relu6_inplace", XT, lambda: Sq(C2(3, 6, 3), nn.ReLU6(inplace=True), C2(6, 4, 1)), [R(1, 3, 8, 8, s=2.0)], seed=38, tags=["conv", "share"])
case("xnn_conv_hardswish", XC, lambda: Sq(C2(3, 6, 3), nn.Hardswish(), C2(6, 4, 1)), [R(1, 3, 8, 8)], seed=39, tags=["conv"])
case("xnn_conv_prelu_leaky", XT, lambda: Sq(C2(3, 6, 3), nn.LeakyReLU(0.1), C2(6, 4, 1), nn.PReLU()), [R(1, 3, 8, 8)], seed=41, tags=["conv"])
# ---------------- XNNPACK: linear
case("xnn_linear", XC, lambda: L(8, 5), [R(4, 8)], seed=50, tags=["linear"])
case("xnn_linear_per_tensor_nobias", XT, lambda: L(8, 5, bias=False), [R(4, 8)], seed=51, tags=["linear"])
case("xnn_linear_relu", XC, lambda: Sq(L(8, 5), nn.ReLU()), [R(4, 8)], seed=52, tags=["linear"])
case("xnn_linear_3d", XC, lambda: L(6, 10), [R(2, 7, 6)], seed=54, tags=["linear"])
case("xnn_linear_4d_relu", XC, lambda: Sq(L(6, 10), nn.ReLU(), L(10, 4)), [R(2, 3, 4, 6)], seed=55, tags=["linear"])
case("xnn_mlp3", XC, lambda: Sq(L(10, 32), nn.ReLU(), L(32, 32), nn.ReLU(), L(32, 4)), [R(8, 10)], seed=57, tags=["linear"])
case("xnn_linear_weight_reused", XC, lambda: Fn(lambda s, x: s.l(F.relu(s.l(x))), l=L(6, 6)), [R(3, 6)], seed=59, tags=["linear", "sharing"])
case("xnn_linear_weight4bit", xg(is_per_channel=True, weight_qmin=-8, weight_qmax=7), lambda: Sq(L(16, 8), nn.ReLU(), L(8, 4)), [R(4, 16)], seed=60, tags=["linear", "config"])
case("xnn_linear_act_range", xg(act_qmin=-64, act_qmax=63), lambda: Sq(L(16, 8), nn.ReLU(), L(8, 4)), [R(4, 16)], seed=61, tags=["linear", "config"])
case("xnn_matmul_addmm", XC, lambda: Fn(lambda s, x, y: s.l(torch.matmul(x, y)) + torch.addmm(s.b, x, y), l=L(5, 5), b=nn.Parameter(torch.randn(5))), [R(4, 6), R(6, 5)], seed=63, tags=["linear"], note="matmul/addmm are not XNNPACK patterns")
# ---------------- XNNPACK: add / mul
case("xnn_add", XT, lambda: Fn(lambda s, x, y: x + y), [R(2, 5), R(2, 5, s=2.0)], seed=70, tags=["add"])
case("xnn_add_relu", XT, lambda: Fn(lambda s, x, y: F.relu(x + y)), [R(2, 5), R(2, 5)], seed=71, tags=["add"])
case("xnn_add_self", XT, lambda: Fn(lambda s, x: x + x), [R(2, 5)], seed=72, tags=["add", "sharing"])
case("xnn_add_scalar", XT, lambda: Fn(lambda s, x: x + 1.5), [R(2, 5)], seed=73, tags=["add", "const"])
case("xnn_add_radd_int", XT, lambda: Fn(lambda s, x: 3 + x * 2), [R(2, 5)], seed=74, tags=["add", "const"])
case("xnn_sub_div", XT, lambda: Fn(lambda s, x, y: (x - y) / 2.0 + y), [R(2, 5), R(2, 5)], seed=76, tags=["add"])
case("xnn_add_inplace", XT, lambda: Fn(lambda s, x, y: (lambda z: z.add_(y))(s.l(x)), l=L(5, 5)), [R(2, 5), R(2, 5)], seed=78, tags=["add"])
case("xnn_add_int_tensors", XT, lambda: Fn(lambda s, i, x: s.e(i + 1) + x, e=nn.Embedding(12, 4)), [IDX(10, 2, 3), R(2, 3, 4)], seed=80, tags=["add", "error"], note="peer bug: _convert_scalars_to_attrs turns the int scalar of an int add into a float tensor, the embedding then rejects float indices at calibration")
case("xnn_add_int_tensors2", XT, lambda: Fn(lambda s, i, j, x: s.e(i + j) + x, e=nn.Embedding(20, 4)), [IDX(10, 2, 3), IDX(10, 2, 3), R(2, 3, 4)], seed=801, tags=["add"], note="the int add is not annotated, the float one is")
case("xnn_add_large_scalar", XT, lambda: Fn(lambda s, x: F.relu(x * 0.5 + 1e16) * 1e-16 + x), [R(2, 5)], seed=81, tags=["add", "const"], note="scalar above the histc bound is skipped")
case("xnn_add_param", XT, lambda: Fn(lambda s, x: x + s.p, p=nn.Parameter(torch.randn(3, 1))), [R(2, 3, 5)], seed=82, tags=["add", "const"])
case("xnn_add_tensor_const", XT, lambda: Fn(lambda s, x: x + torch.tensor([0.5, -1.0, 2.0])), [R(4, 3)], seed=84, tags=["add", "const"], note="lifted tensor constant (lift_fresh_copy)")
case("xnn_add_chain", XT, lambda: Fn(lambda s, x, y, z: ((x + y) + z) + x), [R(2, 4), R(2, 4, s=3.0), R(2, 4, s=.3)], seed=85, tags=["add", "sharing"])
case("xnn_mul", XT, lambda: Fn(lambda s, x, y: x * y), [R(2, 5), U(2, 5, lo=-1, hi=3)], seed=86, tags=["mul"])
case("xnn_mul_relu", XT, lambda: Fn(lambda s, x, y: F.relu(x * y)), [R(2, 5), R(2, 5)], seed=87, tags=["mul"])
case("xnn_mul_inplace_relu", XT, lambda: Fn(lambda s, x, y: F.relu_(s.l(x).mul_(y)), l=L(5, 5)), [R(2, 5), R(2, 5)], seed=89, tags=["mul"])
case("xnn_mul_add_mix", XC, lambda: Fn(lambda s, x, y: s.a(x) * s.b(y) + s.a(y), a=L(5, 6), b=L(5, 6)), [R(2, 5), R(2, 5)], seed=90, tags=["mul", "add"])
case("xnn_se_block", XC, lambda: Fn(lambda s, x: x * torch.sigmoid(s.f2(F.relu(s.f1(F.adaptive_avg_pool2d(x, 1))))), f1=C2(8, 4, 1), f2=C2(4, 8, 1)), [R(1, 8, 6, 6)], seed=91, tags=["mul", "pool"])
# ---------------- XNNPACK: cat / pools / sharing chains
case("xnn_cat2", XT, lambda: Fn(lambda s, x, y: torch.cat([x, y], 1)), [R(2, 3), R(2, 4, s=5.0)], seed=100, tags=["cat"])
case("xnn_cat_same", XT, lambda: Fn(lambda s, x: torch.cat([x, x], 0)), [R(2, 3)], seed=101, tags=["cat", "sharing"])
case("xnn_cat_convs", XC, lambda: Fn(lambda s, x: torch.cat([s.a(x), s.b(x), x], 1), a=C2(3, 4, 3, padding=1), b=C2(3, 5, 1)), [R(1, 3, 7, 7)], seed=102, tags=["cat"])
case("xnn_cat_of_cat", XC, lambda: Fn(lambda s, x, y, z: s.l(torch.cat([z, torch.cat([x, y], 1)], 1)), l=L(9, 4)), [R(2, 3), R(2, 3, s=3.0), R(2, 3, s=.1)], seed=103, tags=["cat", "sharing"])
case("xnn_stack_split", XC, lambda: Fn(lambda s, x: (lambda p: s.l(p[0]) + p[1])(torch.split(x, 4, 1)), l=L(4, 4)), [R(2, 8)], seed=107, tags=["sharing"])
case("xnn_chunk_cat", XC, lambda: Fn(lambda s, x: (lambda p: torch.cat([s.l(p[1]), p[0]], 1))(torch.chunk(x, 2, 1)), l=L(4, 4)), [R(2, 8)], seed=108, tags=["cat"])
case("xnn_adaptive_pool_module", XC, lambda: Sq(C2(3, 6, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), L(6, 3)), [R(2, 3, 8, 8)], seed=109, tags=["pool", "share"])
case("xnn_adaptive_pool_functional", XC, lambda: Fn(lambda s, x: s.l(torch.flatten(F.adaptive_avg_pool2d(s.c(x), (2, 2)), 1)), c=C2(3, 6, 3), l=L(24, 3)), [R(2, 3, 8, 8)], seed=110, tags=["pool", "share"])
case("xnn_maxpool_after_conv", XC, lambda: Sq(C2(3, 6, 3), nn.ReLU(), nn.MaxPool2d(2), C2(6, 4, 3)), [R(1, 3, 12, 12)], seed=112, tags=["pool", "share"])
case("xnn_avgpool", XC, lambda: Sq(C2(3, 6, 3), nn.AvgPool2d(2), C2(6, 4, 1)), [R(1, 3, 10, 10)], seed=114, tags=["pool"])
case("xnn_mean_dim", XC, lambda: Fn(lambda s, x: s.l(s.c(x).mean([2, 3])), c=C2(3, 6, 3), l=L(6, 4)), [R(2, 3, 8, 8)], seed=115, tags=["share"])
case("xnn_share_chain", XC, lambda: Fn(lambda s, x: s.l(s.c(x).relu().permute(0, 2, 3, 1).reshape(2, 36, 6).transpose(1, 2)[:, :, 2:30].contiguous().view(2, 168)), c=C2(3, 6, 3), l=L(168, 4)), [R(2, 3, 8, 8)], seed=117, tags=["share"])
case("xnn_share_squeeze_flatten", XC, lambda: Fn(lambda s, x: s.l(F.dropout(s.c(x).mean([2], keepdim=True).squeeze(2).flatten(1), training=False)), c=C2(3, 6, 3), l=L(36, 4)), [R(2, 3, 8, 8)], seed=118, tags=["share"])
case("xnn_share_expand_clone", XC, lambda: Fn(lambda s, x: s.l(s.m(x).unsqueeze(0).expand(2, -1, -1).clone()), m=L(5, 6), l=L(6, 4)), [R(3, 5)], seed=120, tags=["share"])
case("xnn_dropout_module", XC, lambda: Sq(L(6, 6), nn.Dropout(0.5), L(6, 4)), [R(3, 6)], seed=121, tags=["share"])
case("xnn_residual", XC, lambda: Fn(lambda s, x: F.relu(s.c2(F.relu(s.c1(x))) + x), c1=C2(4, 4, 3, padding=1), c2=C2(4, 4, 3, padding=1)), [R(1, 4, 8, 8)], seed=122, tags=["add", "residual"])
class ResBlock(nn.Module):
    def __init__(self, i, o, stride=1):
        super().__init__()
        self.c1, self.b1 = C2(i, o, 3, stride, 1, bias=False), B2(o)
        self.c2, self.b2 = C2(o, o, 3, 1, 1, bias=False), B2(o)
        self.relu = nn.ReLU(inplace=True)
        self.down = Sq(C2(i, o, 1, stride, bias=False), B2(o)) if (stride != 1 or i != o) else None
    def forward(self, x):
        y = self.b2(self.c2(self.relu(self.b1(self.c1(x)))))
        idn = x if self.down is None else self.down(x)
        y += idn
        return self.relu(y)
case("xnn_resblocks", XC, lambda: Sq(ResBlock(3, 8), ResBlock(8, 8), nn.AdaptiveAvgPool2d(1), nn.Flatten(), L(8, 5)), [R(2, 3, 10, 10)], seed=123, tags=["residual", "bn"])
class InvRes(nn.Module):
    def __init__(self, i, o, t, stride=1):
        super().__init__()
        h = i * t
        self.net = Sq(C2(i, h, 1, bias=False), B2(h), nn.ReLU6(), C2(h, h, 3, stride, 1, groups=h, bias=False), B2(h), nn.ReLU6(), C2(h, o, 1, bias=False), B2(o))
        self.res = stride == 1 and i == o
    def forward(self, x):
        return x + self.net(x) if self.res else self.net(x)
case("xnn_inverted_residual", XC, lambda: Sq(C2(3, 6, 3, 2, 1, bias=False), B2(6), nn.ReLU6(), InvRes(6, 6, 3), InvRes(6, 8, 3, 2)), [R(1, 3, 16, 16)], seed=125, tags=["residual", "bn"])
case("xnn_pixelshuffle_upsample", XC, lambda: Sq(C2(3, 8, 3, padding=1), nn.PixelShuffle(2), C2(2, 4, 3, padding=1), nn.Upsample(scale_factor=2, mode="nearest"), C2(4, 2, 1)), [R(1, 3, 6, 6)], seed=127, tags=["conv"])
case("xnn_multi_out", XC, lambda: Fn(lambda s, x: {"a": s.a(x), "b": (s.b(x), x)}, a=L(4, 3), b=L(4, 2)), [R(2, 4)], seed=128, tags=["linear"], note="dict/tuple output; an input returned directly")
# ---------------- XNNPACK: observer numerics
case("xnn_num_zero_input", XT, lambda: L(4, 3), [CONST(0.0, 2, 4)], seed=140, tags=["numerics"])
case("xnn_num_const_input", XT, lambda: Fn(lambda s, x: x + 2.5), [CONST(3.25, 2, 4)], seed=141, tags=["numerics"])
case("xnn_num_positive", XT, lambda: Sq(L(6, 6), nn.ReLU(), L(6, 2)), [U(8, 6, lo=0.5, hi=9.0)], seed=142, tags=["numerics"])
case("xnn_num_growing", XT, lambda: Fn(lambda s, x, y: x + y), [R(4, 33, grow=[1, 3, 9, 27]), R(4, 33, grow=[27, 9, 3, 1])], seed=144, tags=["numerics"])
case("xnn_num_outliers", XT, lambda: Sq(L(40, 6), nn.ReLU()), [OUTLIER(30, 40)], seed=145, tags=["numerics"])
case("xnn_num_huge", XT, lambda: Fn(lambda s, x: x * s.k + x, k=torch.tensor(3.0)), [R(4, 9, s=1e6)], seed=147, tags=["numerics"])
case("xnn_num_const_then_data", XT, lambda: Fn(lambda s, x: F.relu(x + 0.125)), [BATCHES(CONST(1.0, 3, 5), R(3, 5), CONST(0.0, 3, 5), R(3, 5, s=8.0), example=R(3, 5))], seed=148, tags=["numerics"])
case("xnn_num_skewed", XT, lambda: Fn(lambda s, x: x.exp() + 0.0), [R(200, 10, s=1.5)], seed=150, tags=["numerics"])
case("xnn_num_zero_weight", XC, lambda: Fn(lambda s, x: F.linear(x, s.w), w=nn.Parameter(torch.cat([torch.zeros(2, 6), torch.full((1, 6), 1e-9), torch.randn(2, 6)]))), [R(8, 6)], seed=151, tags=["numerics"])
case("xnn_num_large_tensor", XT, lambda: Sq(C2(3, 4, 3), nn.ReLU()), [R(4, 3, 40, 40)], seed=153, tags=["numerics"])
case("xnn_num_inf_range_growth", XT, lambda: Fn(lambda s, x: x + 0.0), [R(64, grow=[1e-3, 1e3, 1, 10])], seed=154, tags=["numerics"], note="very small first range then very large (histogram reset path)")
# ---------------- XNNPACK: dynamic
case("dyn_linear_per_tensor", XTD, lambda: L(8, 5), [R(4, 8)], seed=160, tags=["dynamic"], mode="dynamic")
case("dyn_linear_per_channel", XCD, lambda: L(8, 5, bias=False), [R(4, 8)], seed=161, tags=["dynamic"], mode="dynamic")
case("dyn_mlp", XCD, lambda: Sq(L(10, 16), nn.ReLU(), L(16, 16), nn.GELU(), L(16, 4)), [R(3, 10)], seed=162, tags=["dynamic"], mode="dynamic")
case("dyn_conv2d", XCD, lambda: Sq(C2(3, 6, 3, padding=1), nn.ReLU(), C2(6, 4, 1)), [R(1, 3, 8, 8)], seed=164, tags=["dynamic"], mode="dynamic", note="conv followed by a single relu is skipped in the dynamic config")
case("dyn_convT2d", XCD, lambda: CT2(4, 6, 3), [R(1, 4, 6, 6)], seed=166, tags=["dynamic"], mode="dynamic")
case("dyn_zero_activation", XCD, lambda: L(6, 4), [CONST(0.0, 2, 6)], seed=167, tags=["dynamic", "numerics"], mode="dynamic")
# ---------------- XNNPACK: configuration API
class Sub(nn.Module):
    def __init__(self, n=6):
        super().__init__()
        self.lin1, self.lin2 = L(n, n), L(n, n)
    def forward(self, x):
        return self.lin2(F.relu(self.lin1(x)))
class SubConv(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.fc = C2(3, 4, 3), L(4, 6)
    def forward(self, x):
        return self.fc(F.relu(self.conv(x)).mean([2, 3]))
class Net2(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.block, self.head = SubConv(), Sub(), L(6, 3)
    def forward(self, x):
        return self.head(self.block(self.stem(x)) + 1.0)
case("cfg_module_name_linear", {"type": "xnnpack", "module_name": [["block", {"is_per_channel": True}]]}, Net2, [R(2, 3, 8, 8)], seed=170, tags=["config"])
case("cfg_module_name_conv", {"type": "xnnpack", "module_name": [["stem", {"is_per_channel": True}], ["head", {}]]}, Net2, [R(2, 3, 8, 8)], seed=171, tags=["config"], note="peer quirk: get_attr nodes carry no nn_module_stack so conv/linear_relu/conv_relu partitions never pass a module_name filter; plain linear does")
case("cfg_module_type_linear", {"type": "xnnpack", "module_type": [["torch.nn.Linear", {"is_per_channel": True}]]}, Net2, [R(2, 3, 8, 8)], seed=173, tags=["config"])
case("cfg_module_type_custom", {"type": "xnnpack", "global": {}, "module_type": [["cases_small.Sub", {"is_per_channel": True}]]}, Net2, [R(2, 3, 8, 8)], seed=174, tags=["config"])
case("cfg_operator_type_linear", {"type": "xnnpack", "operator_type": [["aten.linear.default", {"is_per_channel": True}]]}, Net2, [R(2, 3, 8, 8)], seed=175, tags=["config"])
case("cfg_operator_type_over_global", {"type": "xnnpack", "global": {}, "operator_type": [["aten.conv2d.default", {"is_per_channel": True}]]}, Net2, [R(2, 3, 8, 8)], seed=177, tags=["config"])
case("cfg_filter_function", {"type": "xnnpack", "global": {"is_per_channel": True}, "filter_exclude_names": ["linear_1", "add"]}, Net2, [R(2, 3, 8, 8)], seed=178, tags=["config"])
case("cfg_mixed_dynamic_static", {"type": "xnnpack", "global": {}, "module_name": [["block", {"is_dynamic": True, "is_per_channel": True}]]}, Net2, [R(2, 3, 8, 8)], seed=179, tags=["config", "dynamic"])
case("cfg_no_fold", XC, Net2, [R(2, 3, 8, 8)], seed=181, tags=["config"], fold_quantize=False)
# ---------------- XNNPACK: transformer / recurrent / embedding
class Attn(nn.Module):
    def __init__(self, d=16, h=2, sdpa=False):
        super().__init__()
        self.q, self.k, self.v, self.o = L(d, d), L(d, d), L(d, d), L(d, d)
        self.h, self.d, self.sdpa = h, d, sdpa
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.f1, self.f2 = L(d, 2 * d), L(2 * d, d)
    def forward(self, x):
        b, t, d = x.shape
        y = self.ln1(x)
        sp = lambda z: z.view(b, t, self.h, d // self.h).transpose(1, 2)
        q, k, v = sp(self.q(y)), sp(self.k(y)), sp(self.v(y))
        if self.sdpa:
            a = F.scaled_dot_product_attention(q, k, v)
        else:
            a = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(d // self.h), -1) @ v
        x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        return x + self.f2(F.gelu(self.f1(self.ln2(x))))
case("xnn_transformer_block", XC, Attn, [R(1, 6, 16)], seed=190, tags=["transformer"])
case("dyn_transformer_block", XCD, lambda: Attn(16, 4, True), [R(1, 7, 16)], seed=192, tags=["transformer", "dynamic"], mode="dynamic")
case("xnn_mha_module", XC, lambda: Fn(lambda s, x: s.m(x, x, x, need_weights=False)[0], m=nn.MultiheadAttention(8, 2, batch_first=True)), [R(1, 5, 8)], seed=193, tags=["transformer"])
case("xnn_lstm", XC, lambda: Fn(lambda s, x: s.o(s.r(x)[0][:, -1]), r=nn.LSTM(5, 8, batch_first=True), o=L(8, 3)), [R(2, 6, 5)], seed=194, tags=["rnn"])
class LSTMManual(nn.Module):
    def __init__(self, i=4, h=6):
        super().__init__()
        self.ih, self.hh, self.h = L(i, 4 * h), L(h, 4 * h), h
    def forward(self, x):
        h = x.new_zeros(x.shape[0], self.h)
        c = x.new_zeros(x.shape[0], self.h)
        for t in range(x.shape[1]):
            i, f, g, o = (self.ih(x[:, t]) + self.hh(h)).chunk(4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        return h
case("xnn_lstm_manual", XC, LSTMManual, [R(2, 3, 4)], seed=196, tags=["rnn", "sharing"])
class GRUManual(nn.Module):
    def __init__(self, i=4, h=5):
        super().__init__()
        self.ih, self.hh, self.h = L(i, 3 * h), L(h, 3 * h), h
    def forward(self, x):
        h = x.new_zeros(x.shape[0], self.h)
        for t in range(x.shape[1]):
            a, b = self.ih(x[:, t]).chunk(3, 1), self.hh(h).chunk(3, 1)
            r, z = torch.sigmoid(a[0] + b[0]), torch.sigmoid(a[1] + b[1])
            n = torch.tanh(a[2] + r * b[2])
            h = (1 - z) * n + z * h
        return h
case("xnn_gru_manual", XT, GRUManual, [R(2, 3, 4)], seed=198, tags=["rnn", "sharing"])
case("xnn_embedding_mlp", XC, lambda: Fn(lambda s, i: s.l(s.e(i).mean(1)), e=nn.Embedding(20, 8), l=L(8, 3)), [IDX(20, 3, 5)], seed=199, tags=["embedding"])
case("emb_quantizer", {"type": "embedding"}, lambda: Fn(lambda s, i: s.l(s.e(i)), e=nn.Embedding(20, 8), l=L(8, 3)), [IDX(20, 3, 5)], seed=200, tags=["embedding"])
# ---------------- Composable
case("cmp_embedding_xnn", {"type": "composable", "quantizers": [{"type": "embedding"}, XC]}, lambda: Fn(lambda s, i: s.l(F.relu(s.k(s.e(i)))), e=nn.Embedding(20, 8), k=L(8, 8), l=L(8, 3)), [IDX(20, 3, 5)], seed=210, tags=["composable", "embedding"])
case("cmp_two_xnn", {"type": "composable", "quantizers": [{"type": "xnnpack", "operator_type": [["aten.linear.default", {"is_dynamic": True, "is_per_channel": True}]]}, {"type": "xnnpack", "global": {"is_per_channel": True}}]}, Net2, [R(2, 3, 8, 8)], seed=211, tags=["composable", "dynamic"])
case("cmp_conflict", {"type": "composable", "quantizers": [XC, {"type": "embedding"}, {"type": "embedding"}]}, lambda: Fn(lambda s, i: s.l(s.e(i)), e=nn.Embedding(20, 8), l=L(8, 3)), [IDX(20, 3, 5)], seed=213, tags=["composable", "error"], note="the second EmbeddingQuantizer replaces the annotation object: the peer raises RuntimeError")
# ---------------- Custom quantizers (rules)
def SP(dtype="int8", lo=-128, hi=127, qs="per_tensor_affine", obs="HistogramObserver", ax=None, dyn=False, eps=2 ** -12, **oa):
    a = dict(oa)
    if eps is not None:
        a["eps"] = eps
    d = {"kind": "spec", "dtype": dtype, "quant_min": lo, "quant_max": hi, "qscheme": qs, "observer": obs, "observer_args": a}
    if ax is not None:
        d["ch_axis"] = ax
    if dyn:
        d["is_dynamic"] = True
    return d
A8 = SP()
W8 = SP(lo=-127, hi=127, qs="per_tensor_symmetric", obs="MinMaxObserver")
WC = SP(lo=-127, hi=127, qs="per_channel_symmetric", obs="PerChannelMinMaxObserver", ax=0)
FIX = lambda s, z, dt="uint8", lo=0, hi=255: {"kind": "fixed", "dtype": dt, "scale": s, "zero_point": z, "quant_min": lo, "quant_max": hi, "qscheme": "per_tensor_affine"}
BIAS_T = {"kind": "derived", "from": [["$arg0", "$self"], ["$arg1", "$self"]], "fn": "bias_int32", "dtype": "int32", "quant_min": -2 ** 31, "quant_max": 2 ** 31 - 1, "qscheme": "per_tensor_symmetric"}
BIAS_C = {**BIAS_T, "qscheme": "per_channel_symmetric", "ch_axis": 0}
def rules(*r):
    return {"type": "rules", "rules": list(r)}
def rl(target, inputs=None, output=None, **kw):
    return {"target": target, "inputs": inputs or {}, "output": output, **kw}
LIN, CONV, ADD, MUL, RELU = "aten.linear.default", "aten.conv2d.default", "aten.add.Tensor", "aten.mul.Tensor", "aten.relu.default"
case("cus_fixed_sigmoid", rules(rl("aten.sigmoid.default", {"0": A8}, FIX(1 / 256, 0))), lambda: nn.Sigmoid(), [R(3, 7, s=3.0)], seed=220, tags=["custom", "fixed"])
case("cus_fixed_softmax_tanh", rules(rl(LIN, {"0": A8, "1": WC}, A8), rl("aten.softmax.int", {"0": A8}, FIX(1 / 256, 0)), rl("aten.tanh.default", {"0": A8}, FIX(1 / 128, 0, "int8", -128, 127))), lambda: Fn(lambda s, x: (torch.softmax(s.l(x), -1), torch.tanh(s.l(x))), l=L(6, 5)), [R(3, 6)], seed=221, tags=["custom", "fixed"])
case("cus_derived_bias", rules(rl(CONV, {"0": A8, "1": W8, "2": BIAS_T}, A8)), lambda: C2(3, 6, 3), [R(1, 3, 8, 8)], seed=223, tags=["custom", "derived"])
case("cus_derived_bias_per_channel", rules(rl(LIN, {"0": A8, "1": WC, "2": BIAS_C}, A8)), lambda: Sq(L(8, 6), L(6, 3)), [R(4, 8)], seed=224, tags=["custom", "derived"])
case("cus_int16_act", rules(rl(LIN, {"0": SP("int16", -32768, 32767), "1": WC}, SP("int16", -32768, 32767))), lambda: Sq(L(8, 6), nn.Tanh(), L(6, 3)), [R(4, 8)], seed=226, tags=["custom", "dtype"])
case("cus_uint8_act", rules(rl(CONV, {"0": SP("uint8", 0, 255), "1": SP("int8", -128, 127, "per_channel_symmetric", "PerChannelMinMaxObserver", 0)}, SP("uint8", 0, 255))), lambda: Sq(C2(3, 4, 3), C2(4, 4, 1)), [R(1, 3, 8, 8)], seed=228, tags=["custom", "dtype"])
case("cus_uint8_symmetric", rules(rl(LIN, {"0": SP("uint8", 0, 255, "per_tensor_symmetric", "MinMaxObserver"), "1": W8}, SP("uint8", 0, 255, "per_tensor_symmetric", "MinMaxObserver"))), lambda: L(6, 4), [R(5, 6)], seed=229, tags=["custom", "dtype"], note="symmetric uint8: zero_point 128")
case("cus_int8_default_range", rules(rl(LIN, {"0": SP("int8", None, None, "per_tensor_affine", "MinMaxObserver"), "1": SP("int8", None, None, "per_channel_symmetric", "PerChannelMinMaxObserver", 0)}, SP("int8", None, None, obs="MinMaxObserver"))), lambda: L(6, 4), [R(5, 6)], seed=231, tags=["custom", "dtype"], note="quant_min/quant_max unspecified")
case("cus_uint16_act", rules(rl(ADD, {"0": SP("uint16", 0, 65535, obs="MinMaxObserver"), "1": SP("uint16", 0, 65535, obs="MinMaxObserver")}, SP("uint16", 0, 65535, obs="MinMaxObserver"))), lambda: Fn(lambda s, x, y: x + y), [R(4, 8), R(4, 8)], seed=232, tags=["custom", "dtype"])
case("cus_axis1_weight", rules(rl(LIN, {"0": A8, "1": SP(lo=-127, hi=127, qs="per_channel_symmetric", obs="PerChannelMinMaxObserver", ax=1)}, A8)), lambda: L(7, 4), [R(5, 7)], seed=234, tags=["custom", "axis"])
case("cus_per_channel_affine", rules(rl(LIN, {"0": A8, "1": SP("uint8", 0, 255, "per_channel_affine", "PerChannelMinMaxObserver", 0)}, A8)), lambda: L(7, 4), [R(5, 7)], seed=236, tags=["custom", "axis"])
case("cus_per_channel_activation", rules(rl(ADD, {"0": SP("int8", -128, 127, "per_channel_affine", "PerChannelMinMaxObserver", 1), "1": A8}, SP("int8", -128, 127, "per_channel_affine", "MovingAveragePerChannelMinMaxObserver", 1))), lambda: Fn(lambda s, x, y: x + y), [R(2, 3, 4), R(2, 3, 4)], seed=237, tags=["custom", "axis"])
case("cus_minmax_act", rules(rl(LIN, {"0": SP(obs="MinMaxObserver"), "1": WC}, SP(obs="MinMaxObserver"))), lambda: Sq(L(7, 6), nn.ReLU(), L(6, 4)), [R(5, 7, grow=[1, 2, .5, 3])], seed=239, tags=["custom", "observer"])
case("cus_movavg_act", rules(rl(LIN, {"0": SP(obs="MovingAverageMinMaxObserver"), "1": W8}, SP(obs="MovingAverageMinMaxObserver", averaging_constant=0.25))), lambda: Sq(L(7, 6), nn.ReLU(), L(6, 4)), [R(5, 7, grow=[1, 2, .5, 3])], seed=240, tags=["custom", "observer"])
case("cus_hist_bins256", rules(rl(ADD, {"0": SP(bins=256), "1": SP(bins=256)}, SP(bins=512))), lambda: Fn(lambda s, x, y: x + y), [R(9, 30, grow=[1, 2, 4, 8]), OUTLIER(9, 30)], seed=242, tags=["custom", "observer"])
case("cus_hist_symmetric", rules(rl(LIN, {"0": SP(qs="per_tensor_symmetric", lo=-127, hi=127), "1": WC}, SP(qs="per_tensor_symmetric"))), lambda: L(7, 4), [R(25, 7, b=1.0)], seed=244, tags=["custom", "observer"])
case("cus_eps_default", rules(rl(LIN, {"0": SP(eps=None, obs="MinMaxObserver"), "1": SP(lo=-127, hi=127, qs="per_tensor_symmetric", obs="MinMaxObserver", eps=None)}, SP(eps=None, obs="MinMaxObserver"))), lambda: L(7, 4), [R(5, 7, s=1e-7)], seed=245, tags=["custom", "observer", "numerics"])
case("cus_shared_edge", rules(rl("aten.minimum.default", {"0": A8, "1": {"kind": "shared", "edge": ["$arg0", "$self"]}}, {"kind": "shared", "edge": ["$arg0", "$self"]})), lambda: Fn(lambda s, x, y: torch.minimum(x, y)), [R(3, 4), R(3, 4, s=4.0)], seed=246, tags=["custom", "shared"])
case("cus_shared_node", rules(rl(LIN, {"0": A8, "1": WC}, A8), rl("aten.maximum.default", {"0": {"kind": "shared", "node": "$arg0"}, "1": {"kind": "shared", "node": "$arg0"}}, {"kind": "shared", "node": "$arg0"})), lambda: Fn(lambda s, x: torch.maximum(s.a(x), s.b(x)), a=L(5, 4), b=L(5, 4)), [R(3, 5)], seed=247, tags=["custom", "shared"])
case("cus_no_implicit_sharing", rules(rl(LIN, {"0": A8, "1": WC}, A8, allow_implicit_sharing=False)), lambda: Sq(L(5, 6), L(6, 4)), [R(3, 5)], seed=249, tags=["custom", "shared"])
case("cus_different_dtypes_edge", rules(rl(LIN, {"0": A8, "1": WC}, A8, nth=0), rl(LIN, {"0": SP("uint8", 0, 255), "1": WC}, SP("int16", -32768, 32767), nth=1)), lambda: Sq(L(5, 6), L(6, 4)), [R(3, 5)], seed=251, tags=["custom", "shared"], note="requantize: int8 output then uint8 input on the same tensor")
case("cus_same_tensor_two_specs", rules(rl(LIN, {"0": A8, "1": WC}, None, nth=0), rl(LIN, {"0": SP("uint8", 0, 255, obs="MinMaxObserver"), "1": WC}, None, nth=1)), lambda: Fn(lambda s, x: s.a(x) + s.b(x), a=L(5, 6), b=L(5, 6)), [R(3, 5)], seed=252, tags=["custom", "shared"])
case("cus_bmm", rules(rl("aten.matmul.default", {"0": A8, "1": A8}, A8), rl("aten.bmm.default", {"0": A8, "1": SP("uint8", 0, 255)}, A8)), lambda: Fn(lambda s, x, y: torch.bmm(x, torch.matmul(x.transpose(1, 2), y))), [R(2, 3, 4), R(2, 3, 5)], seed=254, tags=["custom"])
case("cus_weight_only", rules(rl(LIN, {"1": WC}), rl(CONV, {"1": W8})), lambda: Fn(lambda s, x: s.l(s.c(x).mean([2, 3])), c=C2(3, 6, 3), l=L(6, 4)), [R(2, 3, 8, 8)], seed=256, tags=["custom"])
case("cus_symmetric_dynamic", rules(rl(LIN, {"0": SP("int8", -127, 127, "per_tensor_symmetric", "PlaceholderObserver", dyn=True), "1": WC})), lambda: L(8, 4), [R(3, 8)], seed=258, tags=["custom", "dynamic"], mode="dynamic", note="choose_qparams_symmetric")
case("cus_fp16_placeholder", rules(rl(LIN, {"1": {"kind": "spec", "dtype": "float16", "observer": "PlaceholderObserver"}})), lambda: L(8, 4), [R(3, 8)], seed=260, tags=["custom", "dtype"])
case("cus_transpose_weight", rules(rl("aten.matmul.default", {"0": A8, "1": W8}, A8)), lambda: Fn(lambda s, x: torch.matmul(x, s.w.t()), w=nn.Parameter(torch.randn(4, 6))), [R(3, 6)], seed=261, tags=["custom"], note="quantize after transpose of a weight: constant folded through")
case("cus_err_shared_missing", rules(rl(ADD, {"0": {"kind": "shared", "node": "$arg0"}, "1": A8}, A8)), lambda: Fn(lambda s, x, y: x + y), [R(2, 3), R(2, 3)], seed=263, tags=["custom", "error"], note="shares with a node that has no spec: the peer raises")
case("cus_err_dynamic_int16", rules(rl(LIN, {"0": SP("int16", -32768, 32767, "per_tensor_affine", "PlaceholderObserver", dyn=True), "1": WC})), lambda: L(8, 4), [R(3, 8)], seed=264, tags=["custom", "error"], mode="dynamic")
# ---------------- X86Inductor
class NetX(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.block, self.head = SubConv(), Sub(), L(6, 3)
    def forward(self, x):
        y = self.stem(x)
        return self.head(self.block(y) + y)
case("x86_conv2d", X86, lambda: C2(3, 8, 3, padding=1), [R(2, 3, 10, 10)], seed=300, tags=["x86", "conv"])
case("x86_conv2d_reduce_range", {"type": "x86", "global": {"reduce_range": True}}, lambda: Sq(C2(3, 8, 3), nn.ReLU()), [R(2, 3, 10, 10)], seed=301, tags=["x86", "conv", "config"])
case("x86_conv_relu", X86, lambda: Sq(C2(3, 8, 3), nn.ReLU()), [R(1, 3, 9, 9)], seed=302, tags=["x86", "conv"])
case("x86_conv_unaries", X86, lambda: Sq(C2(3, 4, 3), nn.Hardtanh(), C2(4, 4, 1), nn.Hardswish(), C2(4, 4, 1), nn.ReLU6(), C2(4, 4, 1), nn.SiLU(), C2(4, 4, 1), nn.GELU()), [R(1, 3, 8, 8)], seed=303, tags=["x86", "conv"])
FRELU_NET = lambda: Fn(lambda s, x: s.d(s.p(F.relu(s.c(x)))), c=C2(3, 4, 3), p=nn.MaxPool2d(2), d=C2(4, 5, 3))
case("x86_conv_frelu", X86, FRELU_NET, [R(1, 3, 12, 12)], seed=304, tags=["x86", "conv"], note="functional relu has no module partition in a .pt2: not fused by the peer")
case("x86_conv1d_relu", X86, lambda: Sq(C1(3, 4, 3), nn.ReLU(), C1(4, 4, 1)), [R(1, 3, 12)], seed=306, tags=["x86", "conv"])
case("x86_conv_bn_relu", X86, lambda: Sq(C2(3, 8, 3, bias=False), B2(8), nn.ReLU()), [R(1, 3, 9, 9)], seed=307, tags=["x86", "conv", "bn"])
case("x86_conv_add", X86, lambda: Fn(lambda s, x: s.a(x) + s.b(x), a=C2(3, 4, 3, padding=1), b=C2(3, 4, 1)), [R(1, 3, 8, 8)], seed=308, tags=["x86", "conv", "binary"])
class X86Res(nn.Module):
    def __init__(self, c=4):
        super().__init__()
        self.c1, self.r1, self.c2, self.r2 = C2(c, c, 3, padding=1), nn.ReLU(), C2(c, c, 3, padding=1), nn.ReLU()
    def forward(self, x):
        return self.r2(self.c2(self.r1(self.c1(x))) + x)
case("x86_conv_add_relu", X86, lambda: Sq(C2(3, 4, 3), nn.ReLU(), X86Res(), X86Res()), [R(1, 3, 8, 8)], seed=309, tags=["x86", "conv", "binary"])
case("x86_conv_iadd", X86, lambda: Fn(lambda s, x: s.r(operator.iadd(s.a(x), x)), a=C2(3, 3, 3, padding=1), r=nn.ReLU()), [R(1, 3, 8, 8)], seed=311, tags=["x86", "conv", "binary"])
case("x86_conv_add_scalar", X86, lambda: Fn(lambda s, x: s.a(x) + 1.0, a=C2(3, 3, 3, padding=1)), [R(1, 3, 8, 8)], seed=312, tags=["x86", "conv", "binary", "error"], note="scalar operand: the peer dereferences args[1].op only when args[0] is not the conv")
case("x86_conv_maxpool_conv", X86, lambda: Sq(C2(3, 4, 3), nn.ReLU(), nn.MaxPool2d(2), C2(4, 4, 3)), [R(1, 3, 12, 12)], seed=313, tags=["x86", "pool"])
case("x86_avgpool_flatten_linear", X86, lambda: Sq(C2(3, 4, 3), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), L(64, 5)), [R(1, 3, 10, 10)], seed=314, tags=["x86", "pool"])
case("x86_flatten_no_user", X86, lambda: Sq(C2(3, 4, 3), nn.Flatten(), nn.Softmax(-1)), [R(1, 3, 6, 6)], seed=316, tags=["x86", "pool"])
case("x86_cat_convs", X86, lambda: Fn(lambda s, x: s.c(torch.cat([s.a(x), s.b(x)], 1)), a=C2(3, 4, 3, padding=1), b=C2(3, 4, 1), c=C2(8, 4, 1)), [R(1, 3, 8, 8)], seed=317, tags=["x86", "cat"])
case("x86_cat_unquantized", X86, lambda: Fn(lambda s, x: s.c(torch.cat([s.a(x), x], 1)), a=C2(3, 4, 3, padding=1), c=C2(7, 4, 1)), [R(1, 3, 8, 8)], seed=319, tags=["x86", "cat"], note="one cat input is not the output of a quantized pattern")
case("x86_linear", X86, lambda: L(8, 5), [R(4, 8)], seed=320, tags=["x86", "linear"])
case("x86_linear_unaries", X86, lambda: Sq(L(8, 8), nn.ReLU(), L(8, 8), nn.LeakyReLU(), L(8, 8), nn.Tanh(), L(8, 8), nn.GELU(), L(8, 4), nn.Sigmoid()), [R(4, 8)], seed=321, tags=["x86", "linear"])
case("x86_linear_add", X86, lambda: Fn(lambda s, x, y: s.l(x) + y, l=L(6, 6)), [R(3, 6), R(3, 6)], seed=323, tags=["x86", "linear", "binary"])
case("x86_linear_add_relu", X86, lambda: Fn(lambda s, x: s.r(s.a(x) + s.b(x)), a=L(6, 6), b=L(6, 6), r=nn.ReLU()), [R(3, 6)], seed=324, tags=["x86", "linear", "binary"])
case("x86_linear_3d", X86, lambda: Sq(L(6, 8), nn.ReLU(), L(8, 4)), [R(2, 5, 6)], seed=326, tags=["x86", "linear"])
case("x86_matmul", {"type": "x86", "global": {}, "function_type": [["torch.matmul", {}]]}, lambda: Fn(lambda s, x: (lambda a: torch.matmul(a, a.transpose(1, 2)))(s.l(x)), l=L(6, 6)), [R(2, 4, 6)], seed=327, tags=["x86", "matmul"])
case("x86_mul", X86, lambda: Fn(lambda s, x, y: s.a(x) * s.b(y) * 0.5 * x[:, :1], a=L(5, 6), b=L(5, 6)), [R(3, 5), R(3, 5)], seed=329, tags=["x86", "mul"], note="same-shape mul quantized, scalar/broadcast mul not")
case("x86_function_type_linear", {"type": "x86", "function_type": [["torch.nn.functional.linear", {}]]}, NetX, [R(2, 3, 8, 8)], seed=330, tags=["x86", "config"])
case("x86_module_type_none", {"type": "x86", "global": {}, "module_type": [["torch.nn.Linear", None]]}, NetX, [R(2, 3, 8, 8)], seed=331, tags=["x86", "config"], note="None excludes the operator")
case("x86_module_name", {"type": "x86", "module_name": [["block", {}]]}, NetX, [R(2, 3, 8, 8)], seed=332, tags=["x86", "config"])
case("x86_dynamic_linear", X86D, lambda: Sq(L(8, 8), nn.ReLU(), L(8, 4)), [R(4, 8)], seed=335, tags=["x86", "dynamic"], mode="dynamic")
case("x86_mixed_dynamic_skipped", {"type": "x86", "global": {}, "function_type": [["torch.nn.functional.linear", {"is_dynamic": True}]]}, NetX, [R(2, 3, 8, 8)], seed=337, tags=["x86", "config"], note="mixing dynamic and static: the second config is skipped with a warning")
case("x86_linear_dynamic_fp16", {"type": "x86", "global": {"preset": "linear_dynamic_fp16"}}, lambda: Sq(L(8, 8), nn.ReLU(), L(8, 4)), [R(4, 8)], seed=338, tags=["x86", "config"])
case("x86_shared_conv_chain", X86, lambda: Fn(lambda s, x: s.a(s.a(x)), a=C2(3, 3, 3, padding=1)), [R(1, 3, 8, 8)], seed=339, tags=["x86", "sharing"], note="one nn.Conv2d called twice in a row: one partition, only the last call is annotated")
case("x86_shared_conv_two_outputs", X86, lambda: Fn(lambda s, x: torch.cat([s.a(x), s.a(torch.tanh(x))], 1), a=C2(3, 3, 3, padding=1)), [R(1, 3, 8, 8)], seed=347, tags=["x86", "error"], note="one nn.Conv2d with two call sites: a partition with two output nodes, the peer raises ValueError")
case("x86_shared_linear", X86, lambda: Fn(lambda s, x: s.a(torch.tanh(s.a(x))), a=L(6, 6)), [R(3, 6)], seed=340, tags=["x86", "linear"], note="a linear called twice is annotated per call site")
case("x86_linear_add_scalar", X86, Net2, [R(2, 3, 8, 8)], seed=345, tags=["x86", "error"], note="linear + python scalar: the peer asserts")
case("x86_dead_unary_error", X86, lambda: Fn(lambda s, x: (s.t(s.l(x)), s.o(x))[1], l=L(6, 6), t=nn.Tanh(), o=L(6, 3)), [R(3, 6)], seed=346, tags=["x86", "error"], note="linear + tanh whose result is unused (e.g. the BERT pooler): the partition has no output node, the peer raises IndexError")
case("x86_transformer", X86, lambda: Attn(16, 2, False), [R(1, 5, 16)], seed=342, tags=["x86", "transformer"])
case("x86_small_cnn", X86, lambda: Sq(C2(3, 8, 3, padding=1, bias=False), B2(8), nn.ReLU(), nn.MaxPool2d(2), C2(8, 8, 3, padding=1, bias=False), B2(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), L(8, 10)), [R(2, 3, 12, 12)], seed=343, tags=["x86", "cnn"])
# ---------------- strict export (source_fn_stack present in the archive: functional ops match too)
case("x86_strict_conv_frelu", X86, FRELU_NET, [R(1, 3, 12, 12)], seed=350, tags=["x86", "strict"], strict=True, note="same net as x86_conv_frelu: here conv+relu fuse and the max_pool is quantized")
case("x86_strict_resblock", X86, lambda: Sq(C2(3, 4, 3), ResBlock(4, 4)), [R(1, 3, 8, 8)], seed=351, tags=["x86", "strict", "residual"], strict=True, note="the shared ReLU that fails in non-strict export")
case("xnn_strict_adaptive_pool", XC, lambda: Fn(lambda s, x: s.l(torch.flatten(F.adaptive_avg_pool2d(s.c(x), 1), 1)), c=C2(3, 6, 3), l=L(6, 3)), [R(2, 3, 8, 8)], seed=354, tags=["pool", "strict"], strict=True)
# ---------------- dynamic shapes, other float types
def RB(*shape):
    """dynamic batch: example 2, calibration 2,3,5,1"""
    return lambda g, k: torch.randn((2 if k < 0 else [2, 3, 5, 1][k],) + shape, generator=g)
def DB(n=1):
    b = torch.export.Dim("b", min=1, max=64)
    return tuple({0: b} for _ in range(n))
case("xnn_dynamic_batch_cnn", XC, lambda: Sq(C2(3, 6, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), L(6, 3)), [RB(3, 8, 8)], seed=360, tags=["dynamic_shape"], dynamic_shapes=DB())
case("dyn_dynamic_batch_mlp", XCD, lambda: Sq(L(8, 6), nn.ReLU(), L(6, 3)), [RB(8)], seed=362, tags=["dynamic", "dynamic_shape"], mode="dynamic", dynamic_shapes=DB())
case("xnn_double_linear", XC, lambda: Fn(lambda s, x: s.l(x.double()).float() + x[:, :4], l=L(6, 4).double()), [R(3, 6)], seed=363, tags=["dtype", "error"], note="float64 linear between float32 ops: the peer's quantize op rejects a float64 weight at constant folding")
case("xnn_channels_last", XC, lambda: Sq(C2(4, 6, 3, padding=1), nn.ReLU(), C2(6, 4, 1)).to(memory_format=torch.channels_last), [R(1, 4, 8, 8)], seed=364, tags=["layout"], note="weights stored channels_last in the archive (strides)")
# ---------------- QAT
case("qat_conv_bn_relu", XTQ, lambda: Sq(C2(3, 6, 3, bias=False), B2(6), nn.ReLU()), [R(2, 3, 8, 8)], mode="qat", seed=400, tags=["qat", "bn"])
case("qat_conv_bn_relu_pc", XCQ, lambda: Sq(C2(3, 6, 3, bias=True), B2(6), nn.ReLU(), C2(6, 4, 1), B2(4)), [R(2, 3, 8, 8)], mode="qat", seed=401, tags=["qat", "bn"])
case("qat_conv_relu", XTQ, lambda: Sq(C2(3, 6, 3), nn.ReLU(), C2(6, 4, 1)), [R(2, 3, 8, 8)], mode="qat", seed=403, tags=["qat"])
case("qat_mlp", XCQ, lambda: Sq(L(8, 12), nn.ReLU(), L(12, 4)), [R(6, 8)], mode="qat", seed=404, tags=["qat"])
case("qat_dynamic_linear", xg(is_qat=True, is_dynamic=True, is_per_channel=True), lambda: Sq(L(8, 12), nn.ReLU(), L(12, 4)), [R(6, 8)], mode="qat", seed=406, tags=["qat", "dynamic"])
case("qat_conv1d_bn_relu", XCQ, lambda: Sq(C1(3, 6, 3), B1(6), nn.ReLU()), [R(2, 3, 12)], mode="qat", seed=407, tags=["qat", "bn"])
case("qat_convT_bn", XCQ, lambda: Sq(CT2(3, 6, 3), B2(6), nn.ReLU()), [R(2, 3, 6, 6)], mode="qat", seed=408, tags=["qat", "bn"])
case("qat_resblock", XCQ, lambda: Sq(ResBlock(3, 4), nn.AdaptiveAvgPool2d(1), nn.Flatten(), L(4, 3)), [R(2, 3, 8, 8)], mode="qat", seed=409, tags=["qat", "bn", "residual"])
case("qat_eval_export", XCQ, lambda: Sq(C2(3, 6, 3, bias=False), B2(6), nn.ReLU()), [R(2, 3, 8, 8)], mode="qat", seed=410, tags=["qat", "bn"], train_export=False, note="exported in eval mode")
case("qat_x86_conv_bn_relu", X86Q, lambda: Sq(C2(3, 6, 3, bias=False), B2(6), nn.ReLU(), C2(6, 4, 1)), [R(2, 3, 8, 8)], mode="qat", seed=412, tags=["qat", "bn", "x86"])
case("qat_custom_fixed", rules(rl(LIN, {"0": {"kind": "spec", "dtype": "int8", "quant_min": -128, "quant_max": 127, "qscheme": "per_tensor_affine", "observer": "FakeQuantize", "observer_args": {"observer": "MovingAverageMinMaxObserver"}}, "1": {"kind": "spec", "dtype": "int8", "quant_min": -127, "quant_max": 127, "qscheme": "per_tensor_symmetric", "observer": "FakeQuantize", "observer_args": {"observer": "MinMaxObserver"}}}), rl("aten.sigmoid.default", {}, FIX(1 / 256, 0))), lambda: Sq(L(6, 5), nn.Sigmoid()), [R(4, 6)], mode="qat", seed=414, tags=["qat", "custom"])
