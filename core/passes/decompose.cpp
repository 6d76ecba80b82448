#include "core/passes/rewrites.h"

#include <algorithm>
#include <utility>

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>
#include <fmt/format.h>

#include "core/interpreter/aten_bridge.h"
#include "core/interpreter/composite_trace.h"

namespace octet {
namespace {

using c10::IValue;
using c10::TypeKind;

// A trace with something that cannot be an argument of a node.
struct Unfit {};

bool is_plain(const Value* value) {
  return value != nullptr && value->kind() == ValueKind::kTensor && value->meta &&
         value->meta->is_static() &&
         (value->meta->dtype == DType::kBool || is_integer(value->meta->dtype) ||
          is_floating_point(value->meta->dtype));
}

bool can_be_replaced(const Node& node) {
  const std::vector<Value*> inputs = node.inputs(), results = node.outputs();
  return node.target().starts_with("aten.") && !results.empty() &&
         std::ranges::all_of(inputs, is_plain) && std::ranges::all_of(results, is_plain);
}

// Inserts the calls of a trace before a node.
class Replacement {
 public:
  Replacement(Graph& graph, Node& node, const std::vector<Value*>& inputs,
              const CompositeTrace& trace)
      : graph_(graph), node_(node), trace_(trace) {
    for (size_t i = 0; i < inputs.size(); ++i) values_[impl_of(trace.inputs[i])] = inputs[i];
  }

  bool run() {
    if (!results_fit()) return false;
    try {
      for (const TracedCall& call : trace_.calls) add(call);
      const std::vector<Value*> results = node_.outputs();
      const std::vector<IValue> found = flat_results();
      for (size_t i = 0; i < results.size(); ++i)
        graph_.replace_uses(results[i], value_of(found[i].toTensor()));
    } catch (const Unfit&) {
      for (auto added = added_.rbegin(); added != added_.rend(); ++added) graph_.erase(**added);
      return false;
    }
    graph_.erase(node_);
    for (auto added = added_.rbegin(); added != added_.rend(); ++added) {
      const std::vector<Value*> results = (*added)->outputs();
      const bool is_unused =
          std::ranges::all_of(results, [](const Value* value) { return value->is_unused(); });
      if (is_unused && !has_side_effects(**added)) graph_.erase(**added);
    }
    return true;
  }

 private:
  static const void* impl_of(const IValue& value) { return value.toTensor().unsafeGetTensorImpl(); }

  // One per value of the node.
  std::vector<IValue> flat_results() const {
    std::vector<IValue> flat;
    for (const IValue& result : trace_.results) {
      if (!result.isTensorList()) {
        flat.push_back(result);
        continue;
      }
      for (const at::Tensor& tensor : result.toTensorVector()) flat.emplace_back(tensor);
    }
    return flat;
  }

  bool results_fit() const {
    const std::vector<Value*> results = node_.outputs();
    const std::vector<IValue> flat = flat_results();
    if (results.size() != flat.size()) return false;
    for (size_t i = 0; i < flat.size(); ++i)
      if (!flat[i].isTensor() || !flat[i].toTensor().defined() ||
          flat[i].toTensor().sizes() != results[i]->meta->shape())
        return false;
    return true;
  }

  Value* value_of(const at::Tensor& tensor) {
    const auto known = values_.find(tensor.unsafeGetTensorImpl());
    if (known != values_.end()) return known->second;
    if (!tensor.device().is_cpu()) throw Unfit();
    // a number that the kernel turned into a tensor
    return values_[tensor.unsafeGetTensorImpl()] =
               graph_.add_constant(node_.name() + "_number", from_aten(tensor.contiguous()),
                                   InputKind::kTensorConstant);
  }

  std::vector<Value*> values_of(const std::vector<at::Tensor>& tensors) {
    std::vector<Value*> values;
    for (const at::Tensor& tensor : tensors) values.push_back(value_of(tensor));
    return values;
  }

  template <typename T, typename Convert>
  static std::vector<T> items_of(const IValue& value, const Convert& convert) {
    std::vector<T> items;
    for (const IValue& item : value.toListRef()) items.push_back(convert(item));
    return items;
  }

  Argument list_argument(const IValue& value, const c10::Type& element) {
    if (element.kind() == TypeKind::OptionalType) {
      OptionalTensors tensors;
      for (const IValue& item : value.toListRef())
        tensors.items.push_back(
            item.isNone() || !item.toTensor().defined() ? nullptr : value_of(item.toTensor()));
      return tensors;
    }
    if (element.kind() == TypeKind::TensorType) return values_of(value.toTensorVector());
    const c10::ArrayRef<IValue> items = value.toListRef();
    const auto all = [&](auto is) { return std::ranges::all_of(items, is); };
    if (all([](const IValue& item) { return item.isInt(); }))
      return items_of<int64_t>(value, [](const IValue& item) { return item.toInt(); });
    if (all([](const IValue& item) { return item.isBool(); }))
      return items_of<bool>(value, [](const IValue& item) { return item.toBool(); });
    if (all([](const IValue& item) { return item.isDouble(); }))
      return items_of<double>(value, [](const IValue& item) { return item.toDouble(); });
    throw Unfit();
  }

  Argument argument_of(const IValue& value, const c10::Type& type) {
    if (value.isNone()) return None{};
    if (type.kind() == TypeKind::OptionalType)
      return argument_of(value, *type.expectRef<c10::OptionalType>().getElementType());
    if (value.isTensor())
      return value.toTensor().defined() ? Argument(value_of(value.toTensor())) : Argument(None{});
    if (type.kind() == TypeKind::ListType)
      return list_argument(value, *type.expectRef<c10::ListType>().getElementType());
    if (value.isDevice()) return Device{};  // traced tensors are on "meta"
    if (value.isString()) return value.toStringRef();
    if (value.isDouble()) return value.toDouble();
    if (value.isBool()) return value.toBool();
    if (!value.isInt()) throw Unfit();
    switch (type.kind()) {
      case TypeKind::ScalarTypeType:
        return from_scalar_type(static_cast<c10::ScalarType>(value.toInt()));
      case TypeKind::LayoutType: return Layout::kStrided;
      case TypeKind::MemoryFormatType: return MemoryFormat::kContiguous;
      default: return value.toInt();
    }
  }

  std::vector<NamedArgument> arguments_of(const TracedCall& call) {
    std::vector<NamedArgument> arguments;
    const std::vector<c10::Argument>& wanted = call.schema->arguments();
    for (size_t i = 0; i < wanted.size(); ++i) {
      Argument argument = argument_of(call.arguments[i], *wanted[i].real_type());
      if (argument.is_none() && wanted[i].default_value()) continue;
      arguments.push_back(
          {wanted[i].name(), std::move(argument),
           wanted[i].kwarg_only() ? ArgumentKind::kKeyword : ArgumentKind::kPositional});
    }
    return arguments;
  }

  void add(const TracedCall& call) {
    const std::string op = call.target.substr(5, call.target.rfind('.') - 5);
    Node* added =
        graph_.add_node(call.target, arguments_of(call),
                        graph_.fresh_name(fmt::format("{}_{}", node_.name(), op)), &node_);
    added->metadata = node_.metadata;
    added_.push_back(added);
    auto meta = call.metas.begin();
    for (const IValue& result : call.results) {
      if (result.isTensor()) {
        values_[impl_of(result)] = graph_.add_result(
            *added, added->results().empty() ? added->name() : graph_.fresh_name(added->name()),
            *meta++);
        continue;
      }
      if (!result.isTensorList()) throw Unfit();
      std::vector<std::string> names;
      std::vector<std::optional<TensorMeta>> metas;
      const std::vector<at::Tensor> tensors = result.toTensorVector();
      for (size_t i = 0; i < tensors.size(); ++i) {
        names.push_back(graph_.fresh_name(fmt::format("{}_part_{}", added->name(), i)));
        metas.emplace_back(*meta++);
      }
      const std::vector<Value*> values =
          graph_.add_list_result(*added, std::move(names), std::move(metas));
      for (size_t i = 0; i < values.size(); ++i)
        values_[tensors[i].unsafeGetTensorImpl()] = values[i];
    }
  }

  Graph& graph_;
  Node& node_;
  const CompositeTrace& trace_;
  std::unordered_map<const void*, Value*> values_;
  std::vector<Node*> added_;
};

}  // namespace

int decompose(Graph& graph, const std::function<bool(const std::string& target)>& is_known) {
  int replaced = 0;
  for (Node* node : graph.nodes()) {
    for (const NamedArgument& argument : node->arguments())
      if (const Subgraph* body = argument.value.find<Subgraph>();
          body != nullptr && body->graph != nullptr)
        replaced += decompose(*body->graph, is_known);
    if (is_known(node->target()) || !can_be_replaced(*node)) continue;
    const std::vector<Value*> inputs = node->inputs();
    const std::optional<CompositeTrace> trace = trace_composite(*node, inputs, is_known);
    if (trace && Replacement(graph, *node, inputs, *trace).run()) ++replaced;
  }
  return replaced;
}

}  // namespace octet
