#include "quantizers/xnnpack/float_sums.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace octet {
namespace {

constexpr std::string_view kNorms[] = {"aten.layer_norm", "aten.native_layer_norm", "aten.rms_norm",
                                       "aten.group_norm", "aten.native_group_norm"};
constexpr std::string_view kSums[] = {"aten.add.Tensor", "aten.add_.Tensor"};
constexpr std::string_view kLayers[] = {"linear", "addmm", "mm"};  // rules
constexpr std::string_view kMoves[] = {"aten.view",    "aten.reshape",   "aten.transpose",
                                       "aten.permute", "aten.unsqueeze", "aten.squeeze",
                                       "aten.flatten", "aten.to",        "aten._to_copy",
                                       "aten.dropout", "aten.clone",     "aten.contiguous"};
constexpr const char* kReason =
    "only norms and float sums read it, and one scale would not fit all its channels";

template <size_t count>
bool is_any(const Node& node, const std::string_view (&ops)[count]) {
  return std::any_of(std::begin(ops), std::end(ops),
                     [&](std::string_view op) { return node.is(op); });
}

class FloatSums {
 public:
  FloatSums(const Graph& graph, Annotations& annotations) : annotations_(annotations) {
    for (const Node* node : graph.nodes()) nodes_.push_back(node);
    std::reverse(nodes_.begin(), nodes_.end());
  }

  int run(RuleState& state) {
    for (const Node* node : nodes_) {
      QuantizationAnnotation* annotation = annotations_.find(node);
      const Value* result = node->output_or_null();
      if (annotation == nullptr || result == nullptr || !has_own_scale(*annotation) ||
          !is_for_norms(*result))
        continue;
      if (annotation->rule == "add" && is_any(*node, kSums)) {
        sums_.insert(node);
        annotations_.erase(node);
        state.refusals[node] = kReason;
      } else if (std::find(std::begin(kLayers), std::end(kLayers), annotation->rule) !=
                 std::end(kLayers)) {
        annotation->output_qspec.reset();
        annotation->output_limits.reset();
      }
    }
    return static_cast<int>(sums_.size());
  }

 private:
  static bool has_own_scale(const QuantizationAnnotation& annotation) {
    return annotation.output_qspec &&
           std::holds_alternative<QuantizationSpec>(*annotation.output_qspec);
  }

  // A decomposed norm begins with a square or with the mean.
  bool is_norm(const Node& node) const {
    const bool is_square =
        node.is("aten.pow") ||
        (node.is("aten.mul") && node.find_input("other") == node.find_input("self"));
    return is_any(node, kNorms) ||
           ((is_square || node.is("aten.mean")) && !annotations_.find(&node));
  }

  // Whether the node is a norm or an addition left float, or a view that only such nodes read.
  bool reads_floats(const Node& node) const {
    if (is_norm(node) || sums_.contains(&node)) return true;
    if (is_any(node, kMoves)) return node.output_or_null() && is_for_norms(*node.output_or_null());
    return is_scaled_by_root(node);
  }

  // Whether it is x * rsqrt(...) without annotation.
  bool is_scaled_by_root(const Node& node) const {
    if (!node.is("aten.mul") || annotations_.find(&node)) return false;
    const std::vector<Value*> factors = node.inputs();
    return std::any_of(factors.begin(), factors.end(), [](const Value* factor) {
      const Node* maker = factor->producer();
      return maker != nullptr && maker->is("aten.rsqrt");
    });
  }

  bool is_for_norms(const Value& value) const {
    const std::vector<Node*>& users = value.users();
    return !users.empty() && !value.is_output() &&
           std::all_of(users.begin(), users.end(),
                       [&](const Node* user) { return reads_floats(*user); });
  }

  Annotations& annotations_;
  std::vector<const Node*> nodes_;  // in reverse graph order
  std::unordered_set<const Node*> sums_;
};

}  // namespace

int leave_norm_operands_float(const Graph& graph, Annotations& annotations, RuleState& state) {
  return FloatSums(graph, annotations).run(state);
}

}  // namespace octet
