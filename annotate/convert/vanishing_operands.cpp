// Keeps additions and concatenations in float if the scale of the result would round an operand to
// zero. Example: x has values up to 50 and a LayerScale branch values up to 0.1. One scale for
// their sum in 8 bits is 100 / 255 = 0.39, so the branch vanishes and its layers have no effect.
#include "annotate/convert/convert_steps.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include <fmt/format.h>

#include "annotate/graph/control_flow.h"
#include "annotate/observers/fake_quantize.h"
#include "core/base/error.h"

namespace octet {
namespace {

constexpr std::array<std::string_view, 4> kSums = {"aten.add", "aten.sub", "aten.cat",
                                                   "aten.stack"};
constexpr std::array<std::string_view, 7> kRepeats = {
    "aten.expand", "aten.view",  "aten.reshape",   "aten.unsqueeze",
    "aten.repeat", "aten.clone", "aten.contiguous"};
constexpr int kFarBack = 16;
constexpr double kMask = 3.4028235e15;  // larger numbers are masks

template <size_t count>
bool is_any_of(const Node& node, const std::array<std::string_view, count>& ops) {
  return std::ranges::any_of(ops, [&](std::string_view op) { return node.is(op); });
}

// The largest magnitude of a float32 constant, also through ops that repeat its elements.
std::optional<double> constant_reach(const Graph& graph, const Value* value) {
  for (int i = 0; i < kFarBack; ++i) {
    value = through_observers(value);
    const Node* node = value->producer();
    if (node == nullptr) break;
    if (!is_any_of(*node, kRepeats)) return std::nullopt;
    value = node->inputs().front();
  }
  const Tensor* tensor = graph.find_constant(value);
  if (tensor == nullptr || !tensor->defined() || tensor->dtype() != DType::kFloat32)
    return std::nullopt;
  const Tensor dense = tensor->contiguous();
  double reach = 0;
  for (int64_t i = 0; i < dense.numel(); ++i)
    reach = std::max(reach, std::abs(double{dense.data<float>()[i]}));
  return reach;
}

class FloatSums {
 public:
  FloatSums(ObservedGraph& observed, Graph& graph, Report& report)
      : observed_(observed), graph_(graph), report_(report) {}

  int run() {
    for (Node* node : graph_.nodes())
      if (is_any_of(*node, kSums) && observed_.annotations.find(node) != nullptr) look_at(*node);
    for (Node* point : loose_points_)
      if (point->output()->is_unused()) graph_.erase(*point);
    return static_cast<int>(left_.size());
  }

 private:
  const Observer& observer_of(const Node& point) const {
    return *observed_.observers.at(static_cast<size_t>(group_of(point)));
  }

  // The observer node of the op's result, or of a relu fused with it; null: none.
  static Node* result_point(const Node& op) {
    const Value* value = op.output_or_null();
    for (int i = 0; i < 2 && value != nullptr; ++i) {
      for (Node* user : value->users())
        if (is_observer_node(user)) return user;
      const std::vector<Node*> users = value->users();
      value = users.size() == 1 && users.front()->is("aten.relu") ? users.front()->output_or_null()
                                                                  : nullptr;
    }
    return nullptr;
  }

  // The result's scale; nothing when it is unknown or trained.
  std::optional<double> result_scale(const Node& point) const {
    const Observer& observer = observer_of(point);
    if (observer.args().is_dynamic || !is_integer(observer.args().dtype) || !observer.has_data() ||
        dynamic_cast<const FakeQuantize*>(&observer) != nullptr)
      return std::nullopt;
    try {
      const std::vector<float> scales = observer.calculate_qparams().scale;
      return scales.size() == 1 ? std::optional(double{scales[0]}) : std::nullopt;
    } catch (const Error&) {  // convert reports it with the value's name
      return std::nullopt;
    }
  }

  std::optional<double> reach_of(const Value* operand, int result_group) const {
    const Node* point = operand->producer();
    if (!is_observer_node(point)) return std::nullopt;
    if (group_of(*point) == result_group) return constant_reach(graph_, operand);
    return observed_reach(*point);
  }

  // The largest magnitude that the observer has seen.
  std::optional<double> observed_reach(const Node& point) const {
    const ObserverState state = observer_of(point).state();
    if (state.min.size() != 1 || state.max.size() != 1) return std::nullopt;
    return std::max(std::abs(double{state.min[0]}), std::abs(double{state.max[0]}));
  }

  void look_at(Node& op) {
    Node* point = result_point(op);
    const std::optional<double> scale = point == nullptr ? std::nullopt : result_scale(*point);
    if (!scale || left_.contains(&op)) return;
    const std::optional<double> result = observed_reach(*point);
    if (result && *result > kMask)
      return leave_float(
          op, *point,
          fmt::format(
              "it is a mask of up to {:.2g}; everything else would vanish in steps of {:.2g}",
              *result, *scale));
    for (const Value* operand : op.inputs()) {
      const std::optional<double> reach = reach_of(operand, group_of(*point));
      if (!reach || !(*reach > 0) || !(*reach < *scale / 2)) continue;
      return leave_float(op, *point,
                         fmt::format("its operand %{}, at most {:.2g}, would vanish in steps of "
                                     "{:.2g}",
                                     through_observers(operand)->name(), *reach, *scale));
    }
  }

  void leave_float(Node& op, Node& point, const std::string& reason) {
    if (!left_.insert(&op).second) return;
    const std::vector<ModuleFrame> stack = module_stack(op);
    report_.add(
        {"convert", op.name(), op.target(), stack.empty() ? "" : stack.back().path, reason});
    for (Value* operand : op.inputs())
      if (is_observer_node(operand->producer())) bypass(op, *operand->producer());
    std::vector<Node*> quantized_users;
    const std::vector<Node*> users = point.output()->users();
    for (Node* user : users) {
      Node* next = result_point(*user);
      const QuantizationAnnotation* annotation = observed_.annotations.find(user);
      if (next != nullptr && group_of(*next) == group_of(point))
        leave_float(*user, *next,
                    fmt::format("it shares the scale of %{}, which stays float", op.name()));
      else if (annotation == nullptr || annotation->find_input(observed_value(point)) == nullptr)
        bypass(*user, point);
      else
        quantized_users.push_back(user);
    }
    // also for program outputs
    graph_.replace_uses(point.output(), observed_value(point));
    for (Node* user : quantized_users) user->replace_input(observed_value(point), point.output());
    loose_points_.insert(&point);
    observed_.annotations.erase(&op);
  }

  // Makes the op read the value before the observer node.
  void bypass(Node& op, Node& point) {
    op.replace_input(point.output(), observed_value(point));
    loose_points_.insert(&point);
  }

  ObservedGraph& observed_;
  Graph& graph_;
  Report& report_;
  std::unordered_set<const Node*> left_;
  std::unordered_set<Node*> loose_points_;
};

}  // namespace

int leave_vanishing_operands_float(ObservedGraph& observed, Report& report) {
  int left = FloatSums(observed, observed.graph, report).run();
  for (const Body& body : bodies_within(observed.graph))
    report_on_body(body, report,
                   [&](Report& own) { left += FloatSums(observed, *body.graph, own).run(); });
  return left;
}

}  // namespace octet
