// The rows, and the checks that only they use. The first matching row wins.
#include "quantizers/x86/rules.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "quantizers/common/rule_rows.h"

namespace octet {

namespace {

using namespace rule_rows;

const std::string kAnyMul = "{aten.mul.Tensor|aten.mul_.Tensor}(x, y)";
const std::string kUnaries =
    "{relu|relu6|hardtanh|clamp|hardswish|silu|leaky_relu|gelu|tanh|sigmoid|elu|hardsigmoid}";
const std::string kMatmul = "{matmul|bmm}(x, y)";
const std::string kMaxPool = "{max_pool1d|max_pool2d|max_pool3d}(x)";
const std::string kAvgPool =
    "{avg_pool1d|avg_pool2d|avg_pool3d|adaptive_avg_pool1d|adaptive_avg_pool2d|adaptive_avg_pool3d}"
    "(x)";
std::string unary_if_any(const std::string& pattern) { return kUnaries + "?(" + pattern + ")"; }
std::string sum_with(const std::string& pattern) {
  return "{aten.add.Tensor|aten.add_.Tensor}[" + pattern + ", y]";
}

constexpr std::array<std::string_view, 5> kIdentities = {
    "aten.dropout", "aten.alias", "aten.detach", "aten.contiguous", "aten.clone"};

bool is_identity(const Node& node) {
  return std::ranges::any_of(kIdentities, [&](std::string_view op) { return node.is(op); }) &&
         !node.arguments().empty() && !node.bool_or("train", false);
}

// Finds the op that made the value, looking through identities; null for graph inputs.
const Node* find_maker(const Value* value) {
  const Node* node = value->producer();
  while (node && is_identity(*node)) {
    const Value* passed = node->arguments().front().value.value_or_null();
    node = passed ? passed->producer() : nullptr;
  }
  return node;
}

std::string shape_text(const Value* value) {
  return value->meta ? fmt::format("{}", value->meta->shape()) : std::string("unknown");
}

// Slots x and y have equal shapes.
Verdict operands_have_one_shape(const RuleMatch& at) {
  const Value* x = at.match.find("x");
  const Value* y = at.match.find("y");
  if (x->meta && y->meta && x->meta->sizes == y->meta->sizes) return Verdict::accept();
  return Verdict::refuse(fmt::format("its operands have shapes {} and {}, want equal ones",
                                     shape_text(x), shape_text(y)));
}

// Every value of slot x comes from an annotated op, possibly through identities.
Verdict inputs_are_quantized(const RuleMatch& at) {
  for (const Value* value : at.match.find_all("x")) {
    const Node* maker = find_maker(value);
    if (!maker || !at.annotations.is_annotated(maker))
      return Verdict::refuse(
          fmt::format("it follows its input, and %{} is not quantized", value->name()));
  }
  return Verdict::accept();
}

// An annotated op reads the result.
Verdict result_is_quantized(const RuleMatch& at) {
  const Value* result = at.match.root->output_or_null();
  if (result && std::ranges::any_of(result->users(), [&](const Node* user) {
        return at.annotations.is_annotated(user);
      }))
    return Verdict::accept();
  return Verdict::refuse("no quantized op reads its result");
}

// clang-format off
const Inputs kWeightedAddend = {{"x", kInput}, {"w", kWeight}, {"b", kBias}, {"y", kInput}};
const Inputs kUnary          = {{"x", kInput}};
// clang-format on
const SlotSpec kFloat = LeaveFloat{};
const SlotSpec kShared = same_as("x");

const Checks kGemmAddChecks = {inputs_are_float32, weight_is_constant, constants_are_observable,
                               groups_divide_weight, addend_is_another_value};
const Checks kMulChecks = {inputs_are_float32, constants_are_observable, result_is_no_angle,
                           result_is_no_mask, operands_have_one_shape};
const Checks kMatmulChecks = {inputs_are_float32, constants_are_observable};
const Checks kPoolChecks = {inputs_are_float32, inputs_are_quantized};
const Checks kFlattenChecks = {inputs_are_float32, inputs_are_quantized, result_is_quantized};

// clang-format off
const std::vector<AnnotationRule> kX86Rules = {
    // name                         pattern                                     inputs           output  checks
    {"conv[_bn]_add[_relu]",        clamp_if_any(sum_with(norm_if_any(kConv))), kWeightedAddend, kFloat, kGemmAddChecks},
    {"conv[_bn][_unary]",           unary_if_any(norm_if_any(kConv)),           kWeighted,       kFloat, kWeightedChecks},
    {"conv_transpose[_bn][_unary]", unary_if_any(norm_if_any(kConvTranspose)),  kTransposed,     kFloat, kTransposedChecks},
    {"linear_add[_relu]",           clamp_if_any(sum_with(kLinear)),            kWeighted,       kFloat, kGemmAddChecks},
    {"linear[_bn][_unary]",         unary_if_any(norm_if_any(kLinear)),         kWeighted,       kFloat, kWeightedChecks},
    {"addmm[_unary]",               unary_if_any(kAddmm),                       kTransposed,     kFloat, kWeightedChecks},
    {"mm[_unary]",                  unary_if_any(kMm),                          kColumns,        kFloat, kWeightedChecks},
    {"matmul",                      kMatmul,                                    kBinary,         kFloat, kMatmulChecks},
    {"mul",                         kAnyMul,                                    kBinary,         kFloat, kMulChecks},
};

const std::vector<AnnotationRule> kX86DynamicRules = {
    // name               pattern                      inputs           output  checks
    {"linear",            kLinear,                     kWeighted,       kFloat, kWeightedChecks},
    {"addmm",             kAddmm,                      kTransposed,     kFloat, kWeightedChecks},
    {"mm",                kMm,                         kColumns,        kFloat, kWeightedChecks},
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

constexpr std::string_view kMatmulRule = "matmul";

}  // namespace

std::span<const AnnotationRule> x86_rules() { return kX86Rules; }
std::span<const AnnotationRule> x86_dynamic_rules() { return kX86DynamicRules; }
std::span<const AnnotationRule> x86_propagation_rules() { return kPropagationRules; }
bool is_opt_in(const AnnotationRule& rule) { return rule.name == kMatmulRule; }

}  // namespace octet
