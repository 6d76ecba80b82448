// Conditions of the XNNPACK rows.
#include "quantizers/xnnpack_checks.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "quantizers/xnnpack_rules.h"

namespace octet {

namespace {

constexpr double kHistogramLimit = 3.4028235e15;  // torch.histc loses its bins beyond
constexpr int kMaxConstantDepth = 64;             // ops between a weight and the parameters it is computed from
constexpr std::string_view kPoolClass = "torch.nn.modules.pooling.AdaptiveAvgPool2d";
constexpr std::string_view kPoolFunction = "torch.nn.functional.adaptive_avg_pool2d";

std::string op_name(const Node& node) {
  const std::string& target = node.target();
  const size_t begin = target.find('.') + 1;
  return target.substr(begin, target.find('.', begin) - begin);
}

// The largest absolute value; infinity when there is a NaN. Magnitudes of floats compare like their bits, NaN above all; several maxima at once, as
// whole models go through here.
double largest_magnitude(std::span<const float> values) {
  constexpr size_t kLanes = 8;
  std::array<uint32_t, kLanes> largest{};
  const auto take = [&](size_t i, uint32_t& lane) { lane = std::max(lane, std::bit_cast<uint32_t>(values[i]) & 0x7fffffffu); };
  size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane) take(i + lane, largest[lane]);
  for (; i < values.size(); ++i) take(i, largest[0]);
  const float result = std::bit_cast<float>(*std::max_element(largest.begin(), largest.end()));
  return std::isnan(result) ? INFINITY : result;
}

// The same of a tensor; 0 when it has no elements or is not float32 or float64.
double largest_magnitude(const Tensor& tensor) {
  const Tensor dense = tensor.contiguous();
  const size_t count = static_cast<size_t>(dense.numel());
  if (dense.dtype() == DType::kFloat32) return largest_magnitude(std::span(dense.data<float>(), count));
  if (dense.dtype() != DType::kFloat64) return 0;
  double largest = 0;
  for (double value : std::span(dense.data<double>(), count)) largest = std::isnan(value) ? INFINITY : std::max(largest, std::abs(value));
  return largest;
}

Verdict check_magnitudes(const RuleMatch& at, bool single_elements_only) {
  for (const auto& [slot, values] : at.match.bindings)
    for (const Value* value : values) {
      const Tensor* constant = at.graph.find_constant(value);
      if (!constant || (single_elements_only && constant->numel() != 1)) continue;
      const double largest = largest_magnitude(*constant);
      if (largest > kHistogramLimit)
        return Verdict::refuse(fmt::format("constant %{} holds {:g}, want magnitudes up to 3.4e15", value->name(), largest));
    }
  return Verdict::accept();
}

bool is_constant(const Graph& graph, const Value* value, int depth) {
  if (!value->producer()) return graph.find_constant(value) != nullptr;
  if (depth == 0) return false;
  const std::vector<Value*> inputs = value->producer()->inputs();
  return !inputs.empty() && std::all_of(inputs.begin(), inputs.end(), [&](const Value* input) { return is_constant(graph, input, depth - 1); });
}

std::vector<int64_t> shape_of(const Value* value) { return value && value->meta ? value->meta->shape() : std::vector<int64_t>{}; }

Value* choose_owner(const RuleMatch& at, const std::vector<Value*>& values, std::span<const std::string> sharing_ops) {
  const auto traces_to_spec = [&](const Value* value) {
    for (int steps = 0; steps < kMaxConstantDepth && value && value->producer(); ++steps) {
      const Node& producer = *value->producer();
      const QuantizationAnnotation* annotation = at.annotations.find(&producer);
      if (annotation && annotation->annotated && annotation->output_qspec && producer.output_or_null() == value) return true;
      const bool shares = std::any_of(sharing_ops.begin(), sharing_ops.end(), [&](const std::string& op) { return producer.is(op); });
      if (!shares || producer.arguments().empty()) return false;
      value = producer.arguments().front().value.value_or_null();
    }
    return false;
  };
  const std::vector<Value*>::const_iterator found = std::find_if(values.begin(), values.end(), traces_to_spec);
  return found == values.end() ? values.front() : *found;
}

// The last "name,target" of source_fn_stack as a pair, or empty strings.
std::pair<std::string, std::string> innermost_source(const Node& node) {
  const std::map<std::string, std::string>::const_iterator found = node.metadata.find("source_fn_stack");
  if (found == node.metadata.end()) return {};
  const std::string last = found->second.substr(found->second.rfind(';') + 1);
  const size_t comma = last.find(',');
  if (comma == std::string::npos) return {};
  return {last.substr(0, comma), last.substr(comma + 1)};
}

// What groups nodes into one source partition of the pool; empty when the node belongs to none.
std::string partition_key(const Node& node) {
  if (node.metadata.contains("source_fn_stack")) {
    const auto [name, source] = innermost_source(node);
    return source == kPoolClass || source == kPoolFunction ? source + "/" + name : std::string();
  }
  const std::vector<ModuleFrame> frames = module_stack(node);
  if (frames.empty() || frames.back().type != kPoolClass) return {};
  return frames.back().type + "/" + frames.back().path;
}

}  // namespace

Verdict inputs_are_float32(const RuleMatch& at) {
  for (const auto& [slot, values] : at.match.bindings)
    for (const Value* value : values) {
      if (value->kind() != ValueKind::kTensor) return Verdict::refuse(fmt::format("input %{} is no tensor", value->name()));
      if (!value->meta) return Verdict::refuse(fmt::format("input %{} has no known dtype, want float32", value->name()));
      if (value->meta->dtype != DType::kFloat32)
        return Verdict::refuse(fmt::format("input %{} is {}, want float32", value->name(), name_of(value->meta->dtype)));
    }
  return Verdict::accept();
}

Verdict constants_are_observable(const RuleMatch& at) { return check_magnitudes(at, false); }
Verdict scalars_are_observable(const RuleMatch& at) { return check_magnitudes(at, true); }

Verdict weight_is_constant(const RuleMatch& at) {
  const Value* weight = at.match.find("w");
  if (is_constant(at.graph, weight, kMaxConstantDepth)) return Verdict::accept();
  return Verdict::refuse(fmt::format("weight %{} is computed at run time, want a constant", weight->name()));
}

Verdict has_one_group(const RuleMatch& at) {
  const int64_t groups = at.anchor().int_or("groups", 1);
  if (groups == 1) return Verdict::accept();
  return Verdict::refuse(fmt::format("{} with groups={} is not supported", op_name(at.anchor()), groups));
}

Verdict has_one_group_by_shape(const RuleMatch& at) {
  const std::vector<int64_t> weight = shape_of(at.match.find("w"));
  const std::vector<int64_t> output = shape_of(at.anchor().output_or_null());
  if (weight.size() < 2 || output.size() < 2 || weight[1] == 0) return Verdict::refuse("the shapes of weight and output are not known");
  const int64_t groups = output[1] / weight[1];
  if (groups == 1) return Verdict::accept();
  return Verdict::refuse(fmt::format("{} with groups={} is not supported", op_name(at.anchor()), groups));
}

Verdict is_plain_conv2d(const RuleMatch& at) {
  const std::vector<int64_t> weight = shape_of(at.match.find("w"));
  if (weight.size() != 4) return Verdict::refuse(fmt::format("only 2d convolutions quantize dynamically, got a weight of shape {}", weight));
  const bool transposed = op_name(at.anchor()).starts_with("conv_transpose");
  const std::vector<int64_t> x = shape_of(at.match.find("x"));
  const bool has_one_channel = x.size() == 4 && x[1] == 1;
  if (!transposed && weight[1] == 1)
    return Verdict::refuse(has_one_channel ? "convolutions of one input channel do not quantize dynamically"
                                           : "depthwise convolutions do not quantize dynamically");
  return Verdict::accept();
}

Verdict is_not_before_relu(const RuleMatch& at) {
  const Value* output = at.anchor().output_or_null();
  if (output && output->has_one_user() && output->users().front()->is("aten.relu")) return Verdict::refuse("its relu cannot be quantized with it");
  return Verdict::accept();
}

bool shares_scale(const Node& node) {
  if (!node.is("aten.pad") && !node.is("aten.constant_pad_nd")) return true;
  const Argument* mode = node.find_argument("mode");
  const std::string* name = mode ? mode->find<std::string>() : nullptr;
  if (name && *name != "constant") return true;  // reflect, replicate, circular
  return node.float_or("value", 0.0) == 0.0;
}

std::vector<const Node*> pool_partition(const Graph& graph, const Node& pool) {
  std::vector<const Node*> result;
  const std::string key = partition_key(pool);
  if (key.empty()) return result;
  for (const Node* node : graph.nodes())
    if (partition_key(*node) == key) result.push_back(node);
  return result;
}

Verdict is_pool_partition(const RuleMatch& at) {
  const std::vector<const Node*> partition = pool_partition(at.graph, at.anchor());
  const auto in_partition = [&](const Node* node) { return std::find(partition.begin(), partition.end(), node) != partition.end(); };
  for (const Node* node : partition) {
    const Value* output = node->output_or_null();
    const bool leaves = output && (output->is_output() || !std::all_of(output->users().begin(), output->users().end(), in_partition));
    if (!leaves) continue;
    return node == &at.anchor() ? Verdict::accept() : Verdict::refuse("its module is called more than once");
  }
  return Verdict::refuse("a functional pool is recognized in strict exports only");
}

Value* first_quantized_input(const RuleMatch& at, const std::vector<Value*>& values) { return choose_owner(at, values, xnnpack_sharing_ops()); }
Value* first_quantized_input_compat(const RuleMatch& at, const std::vector<Value*>& values) {
  return choose_owner(at, values, xnnpack_sharing_ops_compat());
}

}  // namespace octet
