// The rows. First match wins, so longer patterns stand first.
#include "quantizers/x86/rules.h"

#include "quantizers/common/rule_rows.h"
#include "quantizers/x86/checks.h"

namespace octet {

namespace {

using namespace rule_rows;

const std::string kAdd = "{aten.add.Tensor|aten.add_.Tensor}";
const std::string kMul = "{aten.mul.Tensor|aten.mul_.Tensor}(x, y)";
const std::string kUnaries =
    "{relu|relu6|hardtanh|clamp|hardswish|silu|leaky_relu|gelu|tanh|sigmoid|elu|hardsigmoid}";
const std::string kMatmul = "{matmul|bmm}(x, y)";
const std::string kMaxPool = "{max_pool1d|max_pool2d|max_pool3d}(x)";
const std::string kAvgPool =
    "{avg_pool1d|avg_pool2d|avg_pool3d|adaptive_avg_pool1d|adaptive_avg_pool2d|adaptive_avg_pool3d}"
    "(x)";
std::string unary_of(const std::string& pattern) { return kUnaries + "(" + pattern + ")"; }
std::string added_to(const std::string& pattern) { return kAdd + "(" + pattern + ", y)"; }
std::string adds(const std::string& pattern) { return kAdd + "(y, " + pattern + ")"; }

// clang-format off
const Inputs kWeightedAddend = {{"x", kInput}, {"w", kWeight}, {"b", kBias}, {"y", kInput}};
const Inputs kUnary          = {{"x", kInput}};
// clang-format on
const SlotSpec kFloat = LeaveFloat{};
const SlotSpec kShared = same_as("x");

const Checks& kGemmChecks = kWeightedChecks;
const Checks kGemmAddChecks = {inputs_are_float32, weight_is_constant, constants_are_observable,
                               groups_divide_weight, addend_is_another_value};
const Checks kMulChecks = {inputs_are_float32, constants_are_observable, result_is_no_angle,
                           result_is_no_mask, operands_have_one_shape};
const Checks kMatmulChecks = {inputs_are_float32, constants_are_observable};
const Checks kPoolChecks = {inputs_are_float32, inputs_are_quantized};
const Checks kFlattenChecks = {inputs_are_float32, inputs_are_quantized, result_is_quantized};

// clang-format off
const std::vector<AnnotationRule> kRules = {
    // name               pattern                      inputs           output  checks
    {"conv_add_relu",     clamp_of(added_to(kConv)),   kWeightedAddend, kFloat, kGemmAddChecks},
    {"conv_add_relu",     clamp_of(adds(kConv)),       kWeightedAddend, kFloat, kGemmAddChecks},
    {"conv_add",          added_to(kConv),             kWeightedAddend, kFloat, kGemmAddChecks},
    {"conv_add",          adds(kConv),                 kWeightedAddend, kFloat, kGemmAddChecks},
    {"conv_unary",        unary_of(kConv),             kWeighted,       kFloat, kGemmChecks},
    {"conv",              kConv,                       kWeighted,       kFloat, kGemmChecks},
    {"linear_add_relu",   clamp_of(added_to(kLinear)), kWeighted,       kFloat, kGemmAddChecks},
    {"linear_add_relu",   clamp_of(adds(kLinear)),     kWeighted,       kFloat, kGemmAddChecks},
    {"linear_add",        added_to(kLinear),           kWeighted,       kFloat, kGemmAddChecks},
    {"linear_add",        adds(kLinear),               kWeighted,       kFloat, kGemmAddChecks},
    {"linear_unary",      unary_of(kLinear),           kWeighted,       kFloat, kGemmChecks},
    {"linear",            kLinear,                     kWeighted,       kFloat, kGemmChecks},
    {"addmm_unary",       unary_of(kAddmm),            kTransposed,     kFloat, kGemmChecks},
    {"addmm",             kAddmm,                      kTransposed,     kFloat, kGemmChecks},
    {"mm_unary",          unary_of(kMm),               kColumns,        kFloat, kGemmChecks},
    {"mm",                kMm,                         kColumns,        kFloat, kGemmChecks},
    {"matmul",            kMatmul,                     kBinary,         kFloat, kMatmulChecks},
    {"mul",               kMul,                        kBinary,         kFloat, kMulChecks},
};

const std::vector<AnnotationRule> kBatchNormRules = {
    // name               pattern                               inputs           output  checks
    {"conv_bn_add_relu",  clamp_of(added_to(norm_of(kConv))),   kWeightedAddend, kFloat, kGemmAddChecks},
    {"conv_bn_add_relu",  clamp_of(adds(norm_of(kConv))),       kWeightedAddend, kFloat, kGemmAddChecks},
    {"conv_bn_add",       added_to(norm_of(kConv)),             kWeightedAddend, kFloat, kGemmAddChecks},
    {"conv_bn_add",       adds(norm_of(kConv)),                 kWeightedAddend, kFloat, kGemmAddChecks},
    {"conv_bn_unary",     unary_of(norm_of(kConv)),             kWeighted,       kFloat, kGemmChecks},
    {"conv_bn",           norm_of(kConv),                       kWeighted,       kFloat, kGemmChecks},
    {"linear_bn_unary",   unary_of(norm_of(kLinear)),           kWeighted,       kFloat, kGemmChecks},
    {"linear_bn",         norm_of(kLinear),                     kWeighted,       kFloat, kGemmChecks},
};

const std::vector<AnnotationRule> kDynamicRules = {
    // name               pattern                      inputs           output  checks
    {"linear",            kLinear,                     kWeighted,       kFloat, kGemmChecks},
    {"addmm",             kAddmm,                      kTransposed,     kFloat, kGemmChecks},
    {"mm",                kMm,                         kColumns,        kFloat, kGemmChecks},
    {"matmul",            kMatmul,                     kBinary,         kFloat, kMatmulChecks},
};

const std::vector<AnnotationRule> kPropagationRules = {
    // name               pattern                      inputs           output   checks
    {"max_pool",          kMaxPool,                    kUnary,          kShared, kPoolChecks},
    {"avg_pool",          kAvgPool,                    kUnary,          kShared, kPoolChecks},
    {"cat",               "cat(x...)",                 kList,           kShared, kPoolChecks},
    {"flatten",           "aten.flatten.using_ints(x)", kUnary,         kShared, kFlattenChecks},
};
// clang-format on

constexpr std::string_view kOptIn = "matmul";

}  // namespace

std::span<const AnnotationRule> x86_rules() { return kRules; }
std::span<const AnnotationRule> x86_batch_norm_rules() { return kBatchNormRules; }
std::span<const AnnotationRule> x86_dynamic_rules() { return kDynamicRules; }
std::span<const AnnotationRule> x86_propagation_rules() { return kPropagationRules; }
bool is_opt_in(const AnnotationRule& rule) { return rule.name == kOptIn; }

}  // namespace octet
