// torchao's rows.
#include "quantizers/x86/compat_rows.h"

#include <algorithm>

namespace octet {

namespace {

using Sources = std::vector<std::string>;
using Ops = std::vector<std::string>;

// clang-format off
// The origin of an op, as named in the .pt2: the module's class, and functions that torchao treats
// as equal.
const Sources kConv1d    = {"torch.nn.modules.conv.Conv1d", "torch.conv1d"};
const Sources kConv2d    = {"torch.nn.modules.conv.Conv2d", "torch.conv2d"};
const Sources kLinear    = {"torch.nn.modules.linear.Linear"};
const Sources kAnyLinear = {"torch.nn.modules.linear.Linear", "torch._C._nn.linear"};
const Sources kNorm      = {"torch.nn.modules.batchnorm.BatchNorm2d", "torch.nn.functional.batch_norm"};
const Sources kAdd       = {"torch.add", "_operator.add", "_operator.iadd", "add", "add_"};
const Sources kRelu      = {"torch.nn.modules.activation.ReLU", "torch.nn.functional.relu", "torch.relu_"};
const Sources kHardtanh  = {"torch.nn.modules.activation.Hardtanh", "torch.nn.functional.hardtanh", "torch._C._nn.hardtanh_"};
const Sources kHardswish = {"torch.nn.modules.activation.Hardswish"};
const Sources kRelu6     = {"torch.nn.modules.activation.ReLU6"};
const Sources kSilu      = {"torch.nn.modules.activation.SiLU"};
const Sources kLeakyRelu = {"torch.nn.modules.activation.LeakyReLU"};
const Sources kTanh      = {"torch.nn.modules.activation.Tanh"};
const Sources kGelu      = {"torch.nn.modules.activation.GELU"};

const Ops kConv2dOp   = {"aten.conv2d.default"};
const Ops kConvOps    = {"aten.conv2d.default", "aten.conv1d.default"};
const Ops kLinearOp   = {"aten.linear.default"};

const std::vector<X86FusionRow> kFusionRows = {
    // name                   sources                          matrix ops  batch norm            addend              unary         many calls
    {"conv_bn_add_relu",      {kConv2d, kNorm, kAdd, kRelu},   kConv2dOp,  BatchNorm::kUnfolded, Addend::kQuantized, Unary::kLast},
    {"conv_bn_add",           {kConv2d, kNorm, kAdd},          kConv2dOp,  BatchNorm::kUnfolded, Addend::kQuantized, Unary::kNone},
    {"conv_bn_relu",          {kConv2d, kNorm, kRelu},         kConv2dOp,  BatchNorm::kUnfolded, Addend::kNone,      Unary::kLast},
    {"conv_bn_hardtanh",      {kConv2d, kNorm, kHardtanh},     kConv2dOp,  BatchNorm::kUnfolded, Addend::kNone,      Unary::kLast},
    {"conv_bn_hardswish",     {kConv2d, kNorm, kHardswish},    kConv2dOp,  BatchNorm::kUnfolded, Addend::kNone,      Unary::kLast},
    {"conv_bn_relu6",         {kConv2d, kNorm, kRelu6},        kConv2dOp,  BatchNorm::kUnfolded, Addend::kNone,      Unary::kLast},
    {"conv_bn_silu",          {kConv2d, kNorm, kSilu},         kConv2dOp,  BatchNorm::kUnfolded, Addend::kNone,      Unary::kLast},
    {"conv_bn",               {kConv2d, kNorm},                kConv2dOp,  BatchNorm::kUnfolded, Addend::kNone,      Unary::kNone},
    {"conv_add_relu",         {kConv2d, kAdd, kRelu},          kConv2dOp,  BatchNorm::kFolded,   Addend::kQuantized, Unary::kLast},
    {"conv_add",              {kConv2d, kAdd},                 kConv2dOp,  BatchNorm::kFolded,   Addend::kQuantized, Unary::kNone},
    {"conv_relu",             {kConv2d, kRelu},                kConvOps,   BatchNorm::kFolded,   Addend::kNone,      Unary::kLast},
    {"conv_hardtanh",         {kConv2d, kHardtanh},            kConvOps,   BatchNorm::kFolded,   Addend::kNone,      Unary::kLast},
    {"conv_hardswish",        {kConv2d, kHardswish},           kConvOps,   BatchNorm::kFolded,   Addend::kNone,      Unary::kLast},
    {"conv_relu6",            {kConv2d, kRelu6},               kConvOps,   BatchNorm::kFolded,   Addend::kNone,      Unary::kLast},
    {"conv_silu",             {kConv2d, kSilu},                kConvOps,   BatchNorm::kFolded,   Addend::kNone,      Unary::kLast},
    {"conv1d_relu",           {kConv1d, kRelu},                kConvOps,   BatchNorm::kFolded,   Addend::kNone,      Unary::kLast},
    {"conv",                  {kConv2d},                       kConv2dOp,  BatchNorm::kFolded,   Addend::kNone,      Unary::kNone},
    {"linear_add_relu",       {kLinear, kAdd, kRelu},          kLinearOp,  BatchNorm::kFolded,   Addend::kFloat,     Unary::kLast},
    {"linear_add",            {kLinear, kAdd},                 kLinearOp,  BatchNorm::kFolded,   Addend::kFloat,     Unary::kNone},
    {"linear_relu",           {kLinear, kRelu},                kLinearOp,  BatchNorm::kFolded,   Addend::kNone,      Unary::kLast},
    {"linear_leaky_relu",     {kLinear, kLeakyRelu},           kLinearOp,  BatchNorm::kFolded,   Addend::kNone,      Unary::kLast},
    {"linear_tanh",           {kLinear, kTanh},                kLinearOp,  BatchNorm::kFolded,   Addend::kNone,      Unary::kLast},
    {"linear_gelu",           {kLinear, kGelu},                kLinearOp,  BatchNorm::kFolded,   Addend::kNone,      Unary::kLast},
    {"linear",                {kAnyLinear},                    kLinearOp,  BatchNorm::kFolded,   Addend::kNone,      Unary::kNone, ManyCalls::kEachByItself},
};

const Ops kPropagationOps = {"aten.max_pool2d.default", "aten.cat.default", "aten.avg_pool2d.default", "aten.adaptive_avg_pool2d.default",
                             "aten.flatten.using_ints"};
const Ops kDefaultOps     = {"aten.max_pool2d.default", "aten.cat.default", "aten.avg_pool2d.default", "aten.adaptive_avg_pool2d.default",
                             "aten.flatten.using_ints", "aten.conv1d.default", "aten.conv2d.default", "aten.linear.default", "aten.mul.Tensor"};
const Ops kQuantizableOps = {"aten.max_pool2d.default", "aten.cat.default", "aten.avg_pool2d.default", "aten.adaptive_avg_pool2d.default",
                             "aten.flatten.using_ints", "aten.conv1d.default", "aten.conv2d.default", "aten.linear.default", "aten.mul.Tensor",
                             "aten.matmul.default"};

struct OpNames {
  std::string op;
  std::vector<std::string> names;
};
const std::vector<OpNames> kOpNames = {
    {"aten.conv1d.default",              {"torch.nn.functional.conv1d", "torch.conv1d"}},
    {"aten.conv2d.default",              {"torch.nn.functional.conv2d", "torch.conv2d", "torch.nn.Conv2d", "torch.nn.modules.conv.Conv2d"}},
    {"aten.linear.default",              {"torch.nn.functional.linear", "torch.nn.Linear", "torch.nn.modules.linear.Linear"}},
    {"aten.max_pool2d.default",          {"torch.nn.functional.max_pool2d", "torch.nn.MaxPool2d", "torch.nn.modules.pooling.MaxPool2d"}},
    {"aten.cat.default",                 {"torch.cat"}},
    {"aten.avg_pool2d.default",          {"torch.nn.functional.avg_pool2d", "torch.nn.AvgPool2d", "torch.nn.modules.pooling.AvgPool2d"}},
    {"aten.adaptive_avg_pool2d.default", {"torch.nn.functional.adaptive_avg_pool2d", "torch.nn.AdaptiveAvgPool2d", "torch.nn.modules.pooling.AdaptiveAvgPool2d"}},
    {"aten.flatten.using_ints",          {"torch.flatten"}},
    {"aten.matmul.default",              {"torch.matmul"}},
    {"aten.mul.Tensor",                  {"torch.mul"}},
};
// clang-format on

// "aten.linear.default", "aten.linear" or "linear".
bool names_op(const std::string& name, const std::string& op) {
  const std::string packet = op.substr(0, op.rfind('.'));
  return name == op || name == packet || "aten." + name == packet;
}

}  // namespace

std::span<const X86FusionRow> x86_fusion_rows() { return kFusionRows; }
std::span<const std::string> x86_propagation_ops() { return kPropagationOps; }
std::span<const std::string> x86_default_ops() { return kDefaultOps; }
std::span<const std::string> x86_quantizable_ops() { return kQuantizableOps; }

std::optional<std::string> find_x86_op(const std::string& name) {
  for (const auto& [op, names] : kOpNames)
    if (names_op(name, op) || std::find(names.begin(), names.end(), name) != names.end()) return op;
  return std::nullopt;
}

}  // namespace octet
