#include "core/passes/verify.h"

#include <algorithm>
#include <set>
#include <unordered_set>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/ops/op_schema.h"

namespace octet {
namespace {

[[noreturn]] void fail(const std::string& subject, const std::string& message) {
  throw Error("verify", subject, message);
}

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph) {}

  void run() {
    for (const GraphInput& input : graph_.inputs()) check_input(input);
    for (Node* node : graph_.nodes()) check_node(*node);
    for (const GraphOutput& output : graph_.outputs()) check_output(output);
    for (const Value* value : in_order_) check_users(*value, value->users());
  }

 private:
  void define(Value* value, const std::string& subject, const Node* producer) {
    if (value == nullptr) fail(subject, "a result is null, want a value");
    // Names are unique because each of them leads to its own value.
    if (!defined_.insert(value).second)
      fail(subject, fmt::format("defines %{} a second time, want unique names", value->name()));
    if (graph_.find_value(value->name()) != value)
      fail(subject, fmt::format("%{} is not a value of its graph", value->name()));
    if (value->producer() != producer || &value->graph() != &graph_)
      fail(subject, fmt::format("%{} names another producer", value->name()));
    in_order_.push_back(value);
  }

  void check_input(const GraphInput& input) {
    const std::string subject = input.value == nullptr ? "input" : "%" + input.value->name();
    define(input.value, subject, nullptr);
    const bool has_data = input.kind == InputKind::kParameter || input.kind == InputKind::kBuffer ||
                          input.kind == InputKind::kTensorConstant;
    if (!has_data) return;
    const auto found = graph_.constants.find(input.fqn);
    if (found == graph_.constants.end())
      fail(subject, fmt::format("the constant \"{}\" is missing, want its data", input.fqn));
    const Tensor& tensor = found->second.tensor;
    const std::optional<TensorMeta>& meta = input.value->meta;
    if (!tensor.defined() || !meta) return;
    if (meta->dtype != tensor.dtype() || meta->shape() != tensor.shape())
      fail(subject, fmt::format("the constant \"{}\" does not agree with its type, got {}, want {}",
                                input.fqn, describe(tensor), describe_meta(*meta)));
  }

  static std::string describe_meta(const TensorMeta& meta) {
    std::string sizes;
    for (int64_t size : meta.shape()) sizes += fmt::format("{}{}", sizes.empty() ? "" : ", ", size);
    return fmt::format("{}[{}]", short_name_of(meta.dtype), sizes);
  }

  void check_node(Node& node) {
    const std::string subject = subject_of(node);
    if (graph_.find_node(node.name()) != &node)
      fail(subject, "its name is not unique, want unique names");
    if (node.target().empty()) fail(subject, "has no target");
    std::set<std::string> given;
    for (const NamedArgument& argument : node.arguments()) {
      if (!argument.name.empty() && !given.insert(argument.name).second)
        fail(subject, fmt::format("argument \"{}\" is given twice", argument.name));
      check_argument(argument.value, subject);
      for_each_value(argument.value, [&](Value* value) {
        if (std::ranges::find(value->users(), &node) == value->users().end())
          fail(subject, fmt::format("uses %{}, which does not list this user", value->name()));
      });
    }
    if (const OpSchema* schema = find_op_schema(node.target()))
      check_schema(node, *schema, given, subject);
    for (const ResultSlot& slot : node.results()) check_result(slot, node, subject);
    nodes_.insert(&node);
  }

  // Checks that values are defined and subgraphs valid.
  void check_argument(const Argument& argument, const std::string& subject) {
    for_each_value(argument, [&](Value* value) {
      if (!defined_.contains(value))
        fail(subject,
             fmt::format("uses %{} before its definition, want definitions first", value->name()));
    });
    if (const Subgraph* subgraph = argument.find<Subgraph>()) {
      if (subgraph->graph == nullptr)
        fail(subject, fmt::format("the subgraph \"{}\" is empty", subgraph->name));
      verify(*subgraph->graph);
    } else if (const ArgumentMap* map = argument.find<ArgumentMap>()) {
      for (const auto& [key, item] : map->items) check_argument(*item, subject);
    } else if (const Value* const* value = argument.find<Value*>();
               value != nullptr && *value == nullptr) {
      fail(subject, "an argument is a null value, want None");
    }
  }

  static void check_schema(const Node& node, const OpSchema& schema,
                           const std::set<std::string>& given, const std::string& subject) {
    for (const std::string& name : given)
      if (schema.find(name) == nullptr)
        fail(subject, fmt::format("the op has no argument \"{}\"", name));
    for (const SchemaArgument& argument : schema.arguments) {
      const Argument* value = node.find_argument(argument.name);
      if (value == nullptr) {
        if (!argument.has_default)
          fail(subject,
               fmt::format("argument \"{}\" is missing, want a {}", argument.name, argument.type));
        continue;
      }
      if (value->is_none() && argument.type.starts_with("Tensor") && !argument.type.ends_with('?'))
        fail(subject,
             fmt::format("argument \"{}\" is None, want a {}", argument.name, argument.type));
      const bool is_text_for_tensor =
          argument.type.starts_with("Tensor") && value->find<std::string>() != nullptr;
      if (is_text_for_tensor)
        fail(subject,
             fmt::format("argument \"{}\" is a string, want a {}", argument.name, argument.type));
    }
    if (node.results().size() > schema.returns.size())
      fail(subject, fmt::format("has {} results, want at most {}", node.results().size(),
                                schema.returns.size()));
  }

  void check_result(const ResultSlot& slot, const Node& node, const std::string& subject) {
    if (slot.kind == ResultSlot::Kind::kSingle && slot.values.size() != 1)
      fail(subject, fmt::format("a single result holds {} values", slot.values.size()));
    for (Value* value : slot.values)
      if (value != nullptr || slot.kind != ResultSlot::Kind::kOptionalList)
        define(value, subject, &node);
    check_argument(slot.literal, subject);
  }

  void check_output(const GraphOutput& output) {
    check_argument(output.value, "return");
    for_each_value(output.value, [&](Value* value) {
      if (!value->is_output())
        fail("return", fmt::format("%{} is not marked as an output", value->name()));
    });
    const bool needs_target =
        output.kind == OutputKind::kBufferMutation || output.kind == OutputKind::kParameterMutation;
    if (needs_target && !graph_.constants.contains(output.target))
      fail("return", fmt::format("the mutated constant \"{}\" is missing", output.target));
    if (output.kind == OutputKind::kUserInputMutation &&
        graph_.find_value(output.target) == nullptr)
      fail("return", fmt::format("the mutated input \"{}\" is missing", output.target));
  }

  void check_users(const Value& value, const std::vector<Node*>& users) const {
    for (Node* user : users) {
      if (!nodes_.contains(user)) fail("%" + value.name(), "one of its users is not in the graph");
      const std::vector<Value*> inputs = user->inputs();
      if (std::ranges::find(inputs, &value) == inputs.end())
        fail("%" + value.name(),
             fmt::format("lists %{} as a user, which does not use it", user->name()));
    }
  }

  const Graph& graph_;
  std::unordered_set<const Value*> defined_;
  std::unordered_set<const Node*> nodes_;
  std::vector<const Value*> in_order_;
};

}  // namespace

void verify(const Graph& graph) { Verifier(graph).run(); }

}  // namespace octet
