// Conditions of the XNNPACK rows.
#include "quantizers/xnnpack/rules.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/ops/weighted_ops.h"
#include "quantizers/common/checks.h"

namespace octet {

namespace {

constexpr int kMaxSharingDepth = 64;  // limit of sharing ops between a value and its spec
constexpr std::string_view kPoolClass = "torch.nn.modules.pooling.AdaptiveAvgPool2d";
constexpr std::string_view kPoolFunction = "torch.nn.functional.adaptive_avg_pool2d";

std::vector<int64_t> shape_of(const Value* value) {
  return value && value->meta ? value->meta->shape() : std::vector<int64_t>{};
}

Value* choose_owner(const RuleMatch& at, const std::vector<Value*>& values,
                    std::span<const std::string> sharing_ops) {
  const auto traces_to_spec = [&](const Value* value) {
    for (int steps = 0; steps < kMaxSharingDepth && value && value->producer(); ++steps) {
      const Node& producer = *value->producer();
      if (at.annotations.is_annotated(&producer) && at.annotations.find_output(value)) return true;
      const bool shares =
          std::ranges::any_of(sharing_ops, [&](const std::string& op) { return producer.is(op); });
      if (!shares || producer.arguments().empty()) return false;
      value = producer.arguments().front().value.value_or_null();
    }
    return false;
  };
  const std::vector<Value*>::const_iterator found = std::ranges::find_if(values, traces_to_spec);
  return found == values.end() ? values.front() : *found;
}

bool is_rsqrt(const Node& node) {
  return node.is("aten.rsqrt") || node.is("aten.reciprocal") ||
         (node.is("aten.pow.Tensor_Scalar") && node.float_or("exponent", 0) == -0.5);
}

// The rsqrt that is a factor of the product; null when there is none.
const Node* find_rsqrt(const Node* node) {
  if (node == nullptr || !node->is("aten.mul")) return nullptr;
  for (const Value* factor : node->inputs())
    if (const Node* maker = find_maker_of_elements(factor); maker && is_rsqrt(*maker)) return maker;
  return nullptr;
}

// The last "name,target" of source_fn_stack as a pair, or empty strings.
std::pair<std::string, std::string> innermost_source(const Node& node) {
  const std::map<std::string, std::string>::const_iterator found =
      node.metadata.find("source_fn_stack");
  if (found == node.metadata.end()) return {};
  const std::string last = found->second.substr(found->second.rfind(';') + 1);
  const size_t comma = last.find(',');
  if (comma == std::string::npos) return {};
  return {last.substr(0, comma), last.substr(comma + 1)};
}

// The key of the node's source partition of the pool; empty when it belongs to none.
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

Verdict has_one_group_by_shape(const RuleMatch& at) {
  const std::vector<int64_t> weight = shape_of(at.match.find("w"));
  const std::vector<int64_t> output = shape_of(at.anchor().output_or_null());
  if (weight.size() < 2 || output.size() < 2 || weight[1] == 0)
    return Verdict::refuse("the shapes of weight and output are not known");
  const int64_t groups = output[1] / weight[1];
  if (groups == 1) return Verdict::accept();
  return Verdict::refuse(
      fmt::format("{} with groups={} is not supported", op_name(at.anchor()), groups));
}

Verdict is_plain_conv2d(const RuleMatch& at) {
  const std::vector<int64_t> weight = shape_of(at.match.find("w"));
  if (weight.size() != 4)
    return Verdict::refuse(fmt::format(
        "only 2d convolutions can be quantized dynamically, got a weight of shape {}", weight));
  const std::vector<int64_t> x = shape_of(at.match.find("x"));
  const bool has_one_channel = x.size() == 4 && x[1] == 1;
  if (!is_transposed_conv(at.anchor()) && weight[1] == 1)
    return Verdict::refuse(has_one_channel
                               ? "convolutions of one input channel cannot be quantized dynamically"
                               : "depthwise convolutions cannot be quantized dynamically");
  return Verdict::accept();
}

Verdict is_no_part_of_norm(const RuleMatch& at) {
  static constexpr std::array<std::string_view, 2> kRoots = {"aten.rsqrt", "aten.sqrt"};
  const Node& node = at.anchor();
  if (const Node* root = find_taker_of_elements(node.output_or_null(), kRoots))
    return Verdict::refuse(fmt::format("%{} is computed from it, as in a norm", root->name()));
  if (const Node* rsqrt = find_rsqrt(&node))
    return Verdict::refuse(
        fmt::format("it is the product of a norm: no scale fits the results of %{} for short rows "
                    "and for others",
                    rsqrt->name()));
  const std::vector<Value*> factors = node.inputs();
  const bool has_weight =
      node.is("aten.mul") && std::ranges::any_of(factors, [&](const Value* factor) {
        return is_of_constants(at.graph, factor);
      });
  if (!has_weight) return Verdict::accept();
  for (const Value* factor : factors)
    if (find_rsqrt(find_maker_of_elements(factor)) != nullptr)
      return Verdict::refuse("it is the product with the weight of a norm, which stays float");
  return Verdict::accept();
}

Verdict is_not_before_relu(const RuleMatch& at) {
  const Value* output = at.anchor().output_or_null();
  if (output && output->has_one_user() && output->users().front()->is("aten.relu"))
    return Verdict::refuse("its relu cannot be quantized with it");
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
  const auto in_partition = [&](const Node* node) {
    return std::ranges::find(partition, node) != partition.end();
  };
  for (const Node* node : partition) {
    const Value* output = node->output_or_null();
    const bool leaves =
        output && (output->is_output() || !std::ranges::all_of(output->users(), in_partition));
    if (!leaves) continue;
    return node == &at.anchor() ? Verdict::accept()
                                : Verdict::refuse("its module is called more than once");
  }
  return Verdict::refuse("a functional pool is recognized in strict exports only");
}

Value* first_quantized_input(const RuleMatch& at, const std::vector<Value*>& values) {
  return choose_owner(at, values, xnnpack_sharing_ops());
}
Value* first_quantized_input_compat(const RuleMatch& at, const std::vector<Value*>& values) {
  return choose_owner(at, values, xnnpack_sharing_ops_compat());
}

}  // namespace octet
