// Recognizes the form that qat_conv_bn.cpp makes, to run it with fewer passes and to fold it at
// convert.
#include "annotate/training/qat_conv_bn.h"

#include <algorithm>
#include <unordered_set>

#include "annotate/graph/qdq_nodes.h"
#include "core/passes/fold_conv_bn.h"

namespace octet {
namespace {

Node* producer_of(const Value* value, std::string_view target) {
  Node* node = value == nullptr ? nullptr : value->producer();
  return node != nullptr && node->target() == target ? node : nullptr;
}

// A pair as left by fuse(), with observer nodes.
struct FusedPair {
  Node* conv = nullptr;
  Node* bn = nullptr;
  Value* weight = nullptr;
  Value* bias = nullptr;  // may be null
};

// A broadcast factor or addend before its reshape; null for other values.
Value* before_reshape(const Value* value) {
  const Node* reshape = producer_of(value, "aten.reshape.default");
  return reshape == nullptr ? nullptr : reshape->find_input("self");
}

// The product of weight and scale that a convolution reads, before its reshape; null: none.
const Node* find_product(const Value* value) {
  if (const Node* reshape = producer_of(value, "aten.reshape.default"))
    value = reshape->find_input("self");
  return producer_of(value, "aten.mul.Tensor");
}

// The weight before the reshape for groups.
Value* scaled_weight(const Node& product) {
  Value* weight = product.find_input("self");
  const Node* reshape = producer_of(weight, "aten.reshape.default");
  return reshape == nullptr ? weight : reshape->find_input("self");
}

// The scale can be any value, as it cancels out.
std::optional<FusedPair> find_fused_pair(Node& bn) {
  FusedPair pair{.bn = &bn};
  const Value* value = bn.find_input("input");
  if (const Node* sum = producer_of(value, "aten.add.Tensor")) {
    pair.bias = before_reshape(sum->find_input("other"));
    if (pair.bias == nullptr) return std::nullopt;
    value = sum->find_input("self");
  }
  const Node* quotient = producer_of(value, "aten.div.Tensor");
  if (quotient == nullptr || quotient->find_input("self") == nullptr) return std::nullopt;
  pair.conv = quotient->find_input("self")->producer();
  if (pair.conv == nullptr) return std::nullopt;
  const Node* product = find_product(through_observers(pair.conv->find_input("weight")));
  if (product == nullptr) return std::nullopt;
  const Value* scale = before_reshape(product->find_input("other"));
  if (scale == nullptr || scale != before_reshape(quotient->find_input("other")))
    return std::nullopt;
  pair.weight = scaled_weight(*product);
  const bool has_zeros = producer_of(through_observers(pair.conv->find_input("bias")),
                                     "aten.zeros_like.default") != nullptr;
  if (has_zeros != (pair.bias != nullptr)) return std::nullopt;
  return pair;
}

struct Point {
  std::string name;
  int group = 0;
};

// The observer nodes between `value` and what they observe, outermost first.
std::vector<Point> points_on(const Value* value) {
  std::vector<Point> points;
  for (; value != nullptr && is_observer_node(value->producer());
       value = value->producer()->find_input("input"))
    points.push_back({value->producer()->name(), group_of(*value->producer())});
  return points;
}

// Erases an unread producer and what only it reads.
void erase_unread(Graph& graph, Value* value) {
  Node* node = value == nullptr ? nullptr : value->producer();
  if (node == nullptr || !value->is_unused()) return;
  const std::vector<Value*> inputs = node->inputs();
  graph.erase(*node);
  for (Value* input : inputs) erase_unread(graph, input);
}

void set_weight_or_bias(Graph& graph, Node& conv, const std::string& argument, Value* value) {
  Value* before = conv.find_input(argument);
  conv.set_argument(argument, value);
  erase_unread(graph, before);
}

void observe_again(Graph& graph, Node& conv, const std::string& argument,
                   const std::vector<Point>& points) {
  for (auto point = points.rbegin(); point != points.rend(); ++point) {
    Value* value = conv.find_input(argument);
    conv.set_argument(
        argument, insert_observer_node(graph, value, point->group, point->name, &conv)->output());
  }
}

// Erases torch's counter of batches. torchao keeps it unless the batch norm is 2-d.
void erase_counter(Graph& graph, const Node& bn, Compat compat) {
  constexpr std::string_view kMean = "running_mean";
  const GraphInput* mean = graph.find_input(bn.find_input("running_mean"));
  if (mean == nullptr || !mean->fqn.ends_with(kMean)) return;
  std::string fqn = mean->fqn;
  fqn.replace(fqn.size() - kMean.size(), kMean.size(), "num_batches_tracked");
  const auto counter = std::ranges::find_if(
      graph.inputs(), [&](const GraphInput& input) { return input.fqn == fqn; });
  if (counter == graph.inputs().end() || counter->value == nullptr) return;
  const std::vector<Node*> users = counter->value->users();
  for (Node* user : users) {
    const std::vector<ModuleFrame> stack = module_stack(*user);
    const bool is_2d = std::ranges::any_of(stack, [](const ModuleFrame& frame) {
      return frame.type == "torch.nn.modules.batchnorm.BatchNorm2d";
    });
    const bool counts = user->target() == "aten.add_.Tensor" && user->output()->is_unused();
    if (counts && (is_2d || compat == Compat::kNone)) graph.erase(*user);
  }
}

}  // namespace

std::string name_when_folded(const Value& value) {
  const Node* norm = value.producer();
  if (norm != nullptr && norm->target() == "aten.batch_norm.default") {
    const std::optional<FusedPair> pair = find_fused_pair(*value.producer());
    return pair ? pair->conv->output()->name() : value.name();
  }
  const Node* product = find_product(&value);
  const bool is_scaled =
      product != nullptr && before_reshape(product->find_input("other")) != nullptr;
  return is_scaled ? scaled_weight(*product)->name() : value.name();
}

int move_scale_to_weight(Graph& graph) {
  int count = 0;
  for (Node* bn : graph.nodes_of("aten.batch_norm")) {
    const std::optional<FusedPair> pair = find_fused_pair(*bn);
    if (!pair || !pair->conv->output()->has_one_user()) continue;
    Node& conv = *pair->conv;
    Value* weight = conv.find_input("weight");
    const Node* product = producer_of(through_observers(weight), "aten.mul.Tensor");
    // groups reshape it
    if (product == nullptr) continue;
    // torchao's form: ours handles a gamma of 0
    if (producer_of(before_reshape(product->find_input("other")), "aten.div.Tensor") != nullptr)
      continue;
    Value* quotient = conv.output()->users().front()->output();
    if (!quotient->has_one_user()) continue;
    Node* divided =
        graph.insert("aten.div.Tensor", {{"self", weight}, {"other", product->find_input("other")}},
                     graph.fresh_name("divided"), weight->meta, &conv);
    conv.set_argument("weight", divided->output());
    graph.replace_uses(quotient, conv.output());
    erase_unread(graph, quotient);
    ++count;
    Value* zeros = conv.find_input("bias");
    Value* sum = bn->find_input("input");
    if (producer_of(zeros, "aten.zeros_like.default") == nullptr || !sum->has_one_user()) continue;
    set_weight_or_bias(graph, conv, "bias", pair->bias);
    graph.replace_uses(sum, conv.output());
    erase_unread(graph, sum);
  }
  return count;
}

int fold_conv_bn_qat(Graph& graph, Compat compat) {
  struct Observed {
    Node* conv = nullptr;
    std::vector<Point> weight;
    std::vector<Point> bias;
  };
  std::vector<Observed> observed;
  std::unordered_set<const Node*> norms;
  for (Node* bn : graph.nodes_of("aten.batch_norm")) {
    const std::optional<FusedPair> pair = find_fused_pair(*bn);
    if (!pair) {
      if (compat == Compat::kNone && !bn->bool_or("training", false))
        erase_counter(graph, *bn, compat);
      continue;
    }
    Node& conv = *pair->conv;
    observed.push_back(
        {&conv, points_on(conv.find_input("weight")), points_on(conv.find_input("bias"))});
    Value* result = bn->find_input("input");
    bn->replace_input(result, conv.output());
    erase_unread(graph, result);
    set_weight_or_bias(graph, conv, "weight", pair->weight);
    if (pair->bias != nullptr) set_weight_or_bias(graph, conv, "bias", pair->bias);
    bn->set_argument("training", false);
    erase_counter(graph, *bn, compat);
    norms.insert(bn);
  }
  if (observed.empty()) return 0;
  const int count =
      fold_conv_bn(graph, {.check_users = compat == Compat::kNone,
                           .only = [&](const Node& bn) { return norms.contains(&bn); }});
  for (const Observed& each : observed) {
    observe_again(graph, *each.conv, "weight", each.weight);
    observe_again(graph, *each.conv, "bias", each.bias);
  }
  return count;
}

}  // namespace octet
