// The rows. The first matching row wins; the compat tables have torchao's order.
#include "quantizers/xnnpack/rules.h"

#include <map>

#include "quantizers/common/rule_rows.h"

namespace octet {

namespace {

using namespace rule_rows;

const std::string kConvCompat = "{aten.conv1d.default|aten.conv2d.default}(x, w, b?)";
const std::string kConvTransposeCompat = "{conv_transpose1d|conv_transpose2d}(x, w, b?)";
const std::string kAdd = "{aten.add.Tensor|aten.add_.Tensor}(x, y?)";
const std::string kMul = "{aten.mul.Tensor|aten.mul_.Tensor}(x, y?)";
const std::string kReluCompat = "{aten.relu.default|aten.relu_.default}";
std::string relu_of(const std::string& pattern) { return kReluCompat + "(" + pattern + ")"; }
std::string relu_if_any(const std::string& pattern) { return kReluCompat + "?(" + pattern + ")"; }
std::string norm_of(const std::string& pattern) { return "batch_norm(" + pattern + ", ...)"; }

using Slots = std::vector<std::string>;

// clang-format off
const Inputs kPool = {{"x", LikeProducer{Role::kInput}}};
// XNNPACK's int8 transposed convolutions have one scale for all weights.
const Inputs kTransposedConv = {{"x", kInput}, {"w", weight_with_one_scale(1)}, {"b", kBias}};
// clang-format on
const Slots kWeightAndBias = {"w", "b"};

const Checks kXnnpackBinaryChecks = {inputs_are_float32, constants_are_observable,
                                     result_is_no_angle, result_is_no_mask, is_no_part_of_norm};
const Checks kDynamicConvChecks = {inputs_are_float32, weight_is_constant, constants_are_observable,
                                   is_plain_conv2d};
const Checks kDynamicTransposedChecks = {inputs_are_float32, weight_is_constant,
                                         constants_are_observable, has_one_group, is_plain_conv2d};
const Checks kBinaryChecksCompat = {scalars_are_observable, inputs_are_float32};
const Checks kConvChecksCompat = {is_not_before_relu};
const Checks kTransposedChecksCompat = {is_not_before_relu, has_one_group_by_shape};
const Checks kDynamicConvChecksCompat = {is_not_before_relu, is_plain_conv2d};
const Checks kDynamicTransposedChecksCompat = {is_not_before_relu, has_one_group_by_shape,
                                               is_plain_conv2d};

// clang-format off
const std::vector<AnnotationRule> kXnnpackRules = {
    // name                         pattern                                    inputs           output        checks         owned  marked  owner
    {"conv[_bn][_clamp]",           clamp_if_any(norm_if_any(kConv)),          kWeighted,       kOutput,      kWeightedChecks},
    {"conv_transpose[_bn][_clamp]", clamp_if_any(norm_if_any(kConvTranspose)), kTransposedConv, kOutput,      kTransposedChecks},
    {"linear[_bn][_clamp]",         clamp_if_any(norm_if_any(kLinear)),        kWeighted,       kOutput,      kWeightedChecks},
    {"addmm[_clamp]",               clamp_if_any(kAddmm),                      kTransposed,     kOutput,      kWeightedChecks},
    {"mm[_clamp]",                  clamp_if_any(kMm),                         kColumns,        kOutput,      kWeightedChecks},
    {"adaptive_avg_pool2d",         "adaptive_avg_pool2d(x)",                  kPool,           same_as("x"), kXnnpackBinaryChecks},
    {"add[_clamp]",                 clamp_if_any(kAdd),                        kBinary,         kOutput,      kXnnpackBinaryChecks},
    {"mul[_clamp]",                 clamp_if_any(kMul),                        kBinary,         kOutput,      kXnnpackBinaryChecks},
    {"cat",                         "cat(x...)",                               kList,           same_as("x"), kXnnpackBinaryChecks, {}, {}, first_quantized_input},
};

const std::vector<AnnotationRule> kXnnpackDynamicRules = {
    // name            pattern         inputs       output   checks
    {"linear",         kLinear,        kWeighted,   kOutput, kWeightedChecks},
    {"addmm",          kAddmm,         kTransposed, kOutput, kWeightedChecks},
    {"mm",             kMm,            kColumns,    kOutput, kWeightedChecks},
    {"conv",           kConv,          kWeighted,   kOutput, kDynamicConvChecks},
    {"conv_transpose", kConvTranspose, kTransposed, kOutput, kDynamicTransposedChecks},
};

const std::vector<AnnotationRule> kRulesCompat = {
    // name                 pattern                                inputs       output        checks                    owned  marked  owner
    {"linear_relu",         relu_of(kLinear),                      kWeighted,   kOutput,      {},                       kWeightAndBias},
    {"linear",              kLinear,                               kWeighted,   kOutput,      {},                       {}, kWeightAndBias},
    {"conv",                kConv,                                 kWeighted,   kOutput,      kConvChecksCompat,        kWeightAndBias},
    {"conv_transpose",      kConvTranspose,                        kTransposed, kOutput,      kTransposedChecksCompat,  kWeightAndBias},
    {"conv_relu",           relu_of(kConv),                        kWeighted,   kOutput,      {},                       kWeightAndBias},
    {"conv_transpose_relu", relu_of(kConvTranspose),               kTransposed, kOutput,      {has_one_group_by_shape}, kWeightAndBias},
    {"adaptive_avg_pool2d", "aten.adaptive_avg_pool2d.default(x)", kPool,       same_as("x"), {is_pool_partition}},
    {"add[_relu]",          relu_if_any(kAdd),                     kBinary,     kOutput,      kBinaryChecksCompat},
    {"mul[_relu]",          relu_if_any(kMul),                     kBinary,     kOutput,      kBinaryChecksCompat},
    {"cat",                 "aten.cat.default(x...)",              kList,       same_as("x"), {},                       {}, {}, first_quantized_input_compat},
};

// Here torchao takes neither convolutions with named padding nor axis 0 for transposed weights.
const std::vector<AnnotationRule> kBatchNormRulesCompat = {
    // name                      pattern                                     inputs     output   checks  owned
    {"conv_bn[_relu]",           relu_if_any(norm_of(kConvCompat)),          kWeighted, kOutput, {},     kWeightAndBias},
    {"conv_transpose_bn[_relu]", relu_if_any(norm_of(kConvTransposeCompat)), kWeighted, kOutput, {},     kWeightAndBias},
};

const std::vector<AnnotationRule> kDynamicRulesCompat = {
    // name            pattern         inputs       output   checks                          owned  marked
    {"linear",         kLinear,        kWeighted,   kOutput, {},                             {}, kWeightAndBias},
    {"conv",           kConv,          kWeighted,   kOutput, kDynamicConvChecksCompat,       kWeightAndBias},
    {"conv_transpose", kConvTranspose, kTransposed, kOutput, kDynamicTransposedChecksCompat, kWeightAndBias},
};

const std::vector<std::string> kSharingOpsCompat = {
    "aten.relu.default",         "aten.hardtanh.default",     "aten.hardtanh_.default",  "aten.max_pool2d.default",
    "aten.mean.default",         "aten.mean.dim",             "aten.permute.default",    "aten.permute_copy.default",
    "aten.transpose.int",        "aten.squeeze.dim",          "aten.squeeze_copy.dim",   "aten.adaptive_avg_pool2d.default",
    "aten.view_copy.default",    "aten.view.default",         "aten.reshape.default",    "aten.slice.Tensor",
    "aten.slice_copy.Tensor",    "aten.flatten.using_ints",   "aten.dropout.default",    "aten.dropout_.default",
};

const std::vector<std::string> kSharingOps = {
    // clamps that no producer took
    "aten.relu", "aten.relu6", "aten.hardtanh", "aten.clamp.default",
    // selection and averaging
    "aten.max_pool1d", "aten.max_pool2d", "aten.max_pool3d", "aten.mean.default", "aten.mean.dim", "aten.adaptive_avg_pool2d",
    // movement
    "aten.permute", "aten.permute_copy", "aten.transpose.int", "aten.t", "aten.squeeze", "aten.squeeze_copy", "aten.unsqueeze",
    "aten.view.default", "aten.view_copy.default", "aten.reshape", "aten.slice", "aten.slice_copy", "aten.select.int", "aten.narrow",
    "aten.flatten.using_ints", "aten.unflatten.int", "aten.expand.default", "aten.contiguous", "aten.clone", "aten.alias", "aten.detach",
    "aten.pixel_shuffle", "aten.channel_shuffle", "aten.upsample_nearest2d",
    // movement that adds zeros, if it does: see shares_scale()
    "aten.pad", "aten.constant_pad_nd",
    // identities once trained
    "aten.dropout",
};

const std::vector<std::string> kConvTypes = {"aten.conv2d.default", "aten.conv1d.default", "aten.convolution.default"};
const std::vector<std::string> kConvTransposeTypes = {
    "aten.conv_transpose1d",       "aten.conv_transpose1d.default", "aten.conv_transpose2d",
    "aten.conv_transpose2d.input", "aten.conv_transpose3d",         "aten.conv_transpose3d.input",
};
const std::vector<std::string> kLinearTypes = {"aten.linear.default"};
const std::vector<std::string> kPoolTypes = {"aten.adaptive_avg_pool2d.default"};
const std::vector<std::string> kAddTypes = {"aten.add.Tensor"};
const std::vector<std::string> kMulTypes = {"aten.mul.Tensor"};
const std::vector<std::string> kCatTypes = {"aten.cat.default"};

const std::map<std::string, const std::vector<std::string>*> kOperatorTypes = {
    {"conv", &kConvTypes},     {"conv_relu", &kConvTypes},     {"conv_transpose", &kConvTransposeTypes}, {"conv_transpose_relu", &kConvTransposeTypes},
    {"linear", &kLinearTypes}, {"linear_relu", &kLinearTypes}, {"adaptive_avg_pool2d", &kPoolTypes},
    {"add[_relu]", &kAddTypes}, {"mul[_relu]", &kMulTypes}, {"cat", &kCatTypes},
};
// clang-format on

}  // namespace

std::span<const AnnotationRule> xnnpack_rules() { return kXnnpackRules; }
std::span<const AnnotationRule> xnnpack_dynamic_rules() { return kXnnpackDynamicRules; }
std::span<const AnnotationRule> xnnpack_rules_compat() { return kRulesCompat; }
std::span<const AnnotationRule> xnnpack_dynamic_rules_compat() { return kDynamicRulesCompat; }
std::span<const AnnotationRule> xnnpack_batch_norm_rules_compat() { return kBatchNormRulesCompat; }
std::span<const std::string> xnnpack_sharing_ops() { return kSharingOps; }
std::span<const std::string> xnnpack_sharing_ops_compat() { return kSharingOpsCompat; }

std::span<const std::string> operator_types_of(const std::string& rule) {
  const std::map<std::string, const std::vector<std::string>*>::const_iterator found =
      kOperatorTypes.find(rule);
  if (found == kOperatorTypes.end()) return {};
  return *found->second;
}

}  // namespace octet
