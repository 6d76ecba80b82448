#include "quantizers/common/checks.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <span>
#include <string_view>

#include <fmt/format.h>

#include "core/ops/memory.h"

namespace octet {
namespace {

constexpr double kHistogramLimit = 3.4028235e15;  // torch.histc fails beyond it
// limit of ops between a weight and the parameters that it is computed from
constexpr int kMaxConstantDepth = 64;
constexpr double kMaskFactor = 1e4;
constexpr int kMaxMoves = 8;  // limit of moving ops between two compute ops
constexpr std::array<std::string_view, 12> kMoves = {
    "aten.cat",     "aten.to",        "aten._to_copy", "aten.view",
    "aten.reshape", "aten.unsqueeze", "aten.expand",   "aten.transpose",
    "aten.permute", "aten.repeat",    "aten.slice",    "aten.repeat_interleave"};

// The largest absolute value; infinity if there is a NaN. Magnitudes of floats order as their bits
// do, with NaN above all. Keeps several maxima, because whole models are scanned.
double largest_magnitude(std::span<const float> values) {
  constexpr size_t kLanes = 8;
  std::array<uint32_t, kLanes> largest{};
  const auto take = [&](size_t i, uint32_t& lane) {
    lane = std::max(lane, std::bit_cast<uint32_t>(values[i]) & 0x7fffffffu);
  };
  size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane) take(i + lane, largest[lane]);
  for (; i < values.size(); ++i) take(i, largest[0]);
  const float result = std::bit_cast<float>(*std::ranges::max_element(largest));
  return std::isnan(result) ? INFINITY : result;
}

// The largest absolute value of a tensor; 0 if it is empty or not float32 or float64.
double largest_magnitude(const Tensor& tensor) {
  const Tensor dense = tensor.contiguous();
  const size_t count = static_cast<size_t>(dense.numel());
  if (dense.dtype() == DType::kFloat32)
    return largest_magnitude(std::span(dense.data<float>(), count));
  if (dense.dtype() != DType::kFloat64) return 0;
  double largest = 0;
  for (double value : std::span(dense.data<double>(), count))
    largest = std::isnan(value) ? INFINITY : std::max(largest, std::abs(value));
  return largest;
}

Verdict check_magnitudes(const RuleMatch& at, bool single_elements_only) {
  for (const auto& [slot, values] : at.match.bindings)
    for (const Value* value : values) {
      const Tensor* constant = at.graph.find_constant(value);
      if (!constant || (single_elements_only && constant->numel() != 1)) continue;
      const double largest = largest_magnitude(*constant);
      if (largest > kHistogramLimit)
        return Verdict::refuse(fmt::format("constant %{} holds {:g}, want magnitudes up to 3.4e15",
                                           value->name(), largest));
    }
  return Verdict::accept();
}

bool contains(const std::vector<const Value*>& values, const Value* value) {
  return std::ranges::find(values, value) != values.end();
}

// Whether an op writes to the value's memory, directly or through a view.
bool is_written(const Value* value) {
  return std::ranges::any_of(value->users(), [&](const Node* user) {
    if (contains(written_values(*user), value)) return true;
    if (!contains(aliased_inputs(*user), value)) return false;
    const std::vector<Value*> views = user->outputs();
    return std::ranges::any_of(views, is_written);
  });
}

// Whether an input holds the same tensor in every run.
bool is_fixed_input(const Graph& graph, const Value* value) {
  const GraphInput* input = graph.find_input(value);
  return graph.find_constant(value) != nullptr &&
         std::ranges::none_of(graph.outputs(), [&](const GraphOutput& output) {
           return output.kind != OutputKind::kUserOutput && output.target == input->fqn;
         });
}

bool is_constant(const Graph& graph, const Value* value, int depth) {
  if (is_written(value)) return false;
  if (!value->producer()) return is_fixed_input(graph, value);
  if (depth == 0) return false;
  const std::vector<Value*> inputs = value->producer()->inputs();
  return !inputs.empty() && std::ranges::all_of(inputs, [&](const Value* input) {
    return is_constant(graph, input, depth - 1);
  });
}

bool is_any_of(const Node& node, std::span<const std::string_view> ops) {
  return std::ranges::any_of(ops, [&](std::string_view op) { return node.is(op); });
}

// Finds a node that satisfies `is_wanted` and reads the value through at most `moves` nodes that
// satisfy `passes`; null when there is none.
const Node* find_taker(const Value* value, const NodeFilter& is_wanted, const NodeFilter& passes,
                       int moves) {
  if (value == nullptr) return nullptr;
  for (const Node* user : value->users()) {
    if (is_wanted(*user)) return user;
    if (moves == 0 || !passes(*user)) continue;
    if (const Node* found = find_taker(user->output_or_null(), is_wanted, passes, moves - 1))
      return found;
  }
  return nullptr;
}

bool moves_elements(const Node& node) { return is_any_of(node, kMoves); }

// Whether the node multiplies by 1e4 or more, as masks do to saturate a softmax.
bool scales_mask(const Graph& graph, const Node& node) {
  if (!node.is("aten.mul")) return false;
  if (node.find_input("other") == nullptr)
    return std::abs(node.float_or("other", 0)) >= kMaskFactor;
  const std::vector<Value*> factors = node.inputs();
  return std::ranges::any_of(factors, [&](const Value* factor) {
    const Tensor* constant = graph.find_constant(factor);
    return constant != nullptr && constant->numel() == 1 &&
           largest_magnitude(*constant) >= kMaskFactor;
  });
}

}  // namespace

std::string op_name(const Node& node) {
  const std::string& target = node.target();
  const size_t begin = target.find('.') + 1;
  return target.substr(begin, target.find('.', begin) - begin);
}

const Node* find_maker_of_elements(const Value* value) {
  const Node* node = value->producer();
  for (int moves = 0; node != nullptr && moves_elements(*node); ++moves) {
    const std::vector<Value*> inputs = node->inputs();
    if (inputs.empty() || moves == kMaxMoves) return node;
    node = inputs.front()->producer();
  }
  return node;
}

const Node* find_taker_of_elements(const Value* value, std::span<const std::string_view> ops) {
  return find_taker(
      value, [&](const Node& node) { return is_any_of(node, ops); }, moves_elements, kMaxMoves);
}

bool is_of_constants(const Graph& graph, const Value* value) {
  return is_constant(graph, value, kMaxConstantDepth);
}

Verdict inputs_are_float32(const RuleMatch& at) {
  for (const auto& [slot, values] : at.match.bindings)
    for (const Value* value : values) {
      if (value->kind() != ValueKind::kTensor)
        return Verdict::refuse(fmt::format("input %{} is not a tensor", value->name()));
      if (!value->meta)
        return Verdict::refuse(
            fmt::format("input %{} has no known dtype, want float32", value->name()));
      if (value->meta->dtype != DType::kFloat32)
        return Verdict::refuse(fmt::format("input %{} is {}, want float32", value->name(),
                                           name_of(value->meta->dtype)));
    }
  return Verdict::accept();
}

Verdict constants_are_observable(const RuleMatch& at) { return check_magnitudes(at, false); }
Verdict scalars_are_observable(const RuleMatch& at) { return check_magnitudes(at, true); }

Verdict weight_is_constant(const RuleMatch& at) {
  const Value* weight = at.match.find("w");
  if (is_of_constants(at.graph, weight)) return Verdict::accept();
  return Verdict::refuse(
      fmt::format("weight %{} is computed at run time, want a constant", weight->name()));
}

Verdict result_is_no_angle(const RuleMatch& at) {
  static constexpr std::array<std::string_view, 2> kTurning = {"aten.cos", "aten.sin"};
  const Node* turning = find_taker_of_elements(at.match.root->output_or_null(), kTurning);
  if (turning == nullptr) return Verdict::accept();
  return Verdict::refuse(
      fmt::format("its result is an angle, and %{} needs more than 8 bits of it", turning->name()));
}

Verdict result_is_no_mask(const RuleMatch& at) {
  const auto passes = [](const Node& node) {
    return moves_elements(node) || node.is("aten.rsub") || node.is("aten.sub");
  };
  const auto scales = [&](const Node& node) { return scales_mask(at.graph, node); };
  const Node* product = find_taker(at.match.root->output_or_null(), scales, passes, kMaxMoves);
  if (product == nullptr) return Verdict::accept();
  return Verdict::refuse(fmt::format(
      "its result is a mask, and %{} would amplify its rounding errors", product->name()));
}

Verdict has_one_group(const RuleMatch& at) {
  const int64_t groups = at.anchor().int_or("groups", 1);
  if (groups == 1) return Verdict::accept();
  return Verdict::refuse(
      fmt::format("{} with groups={} is not supported", op_name(at.anchor()), groups));
}

Verdict addend_is_another_value(const RuleMatch& at) {
  const Value* addend = at.match.find("y");
  const std::vector<Node*>& nodes = at.match.nodes;
  if (addend == nullptr || std::ranges::find(nodes, addend->producer()) == nodes.end())
    return Verdict::accept();
  return Verdict::refuse(fmt::format("%{} is added to itself", addend->name()));
}

}  // namespace octet
