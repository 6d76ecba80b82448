#include "support/golden_reference.h"

#include <functional>
#include <map>
#include <unordered_map>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace octet::test {
namespace {

// A tree of ops as one number, and the ops in it for the message.
struct Tree {
  size_t hash = 0;
  std::map<std::string, int> ops;
};

// Ops by one name in both: without "torch.ops.", quantized_decomposed and clamp without overload
// (torchao's rewrite drops them).
std::string op_name(std::string target) {
  constexpr std::string_view kPrefix = "torch.ops.";
  if (target.starts_with(kPrefix)) target.erase(0, kPrefix.size());
  const bool is_bare =
      target.starts_with("quantized_decomposed.") || target.starts_with("aten.clamp");
  const size_t second = target.find('.', target.find('.') + 1);
  return is_bare && second != std::string::npos ? target.substr(0, second) : target;
}

bool has_counted_integers(const std::string& op) {
  return op == "aten.clamp" || op == "aten.add.Tensor" || op == "aten.sub.Tensor" ||
         op == "aten.transpose.int";
}

Tree tree_of(const std::string& op, const std::vector<Tree>& inputs,
             const std::vector<int64_t>& integers) {
  Tree tree;
  std::string text = op;
  if (has_counted_integers(op)) text += fmt::format("{}", integers);
  for (const Tree& input : inputs) {
    text += fmt::format(",{}", input.hash);
    for (const auto& [name, count] : input.ops)
      tree.ops[name] = std::min(1000000, tree.ops[name] + count);
  }
  ++tree.ops[op];
  tree.hash = std::hash<std::string>()(text);
  return tree;
}

Tree leaf(const std::string& text) {
  Tree tree;
  tree.hash = std::hash<std::string>()(text);
  return tree;
}

std::string constant_text(const std::string& dtype, const std::vector<int64_t>& shape) {
  return fmt::format("{}{}", dtype, shape);
}

// Trees of the golden nodes; no entry for arithmetic on literals.
class GoldenTrees {
 public:
  explicit GoldenTrees(const Json& nodes) {
    for (const Json& node : nodes) add(node);
  }
  std::vector<Tree> outputs;

 private:
  void add(const Json& node) {
    const std::string name = node.at("name");
    const std::string op = node.at("op");
    if (op == "placeholder") {
      trees_[name] = leaf(fmt::format("input {}", placeholders_++));
    } else if (op == "get_attr") {
      const Json& attr = node.at("attr");
      trees_[name] = leaf(constant_text(attr.at("dtype").get<std::string>().substr(6),
                                        attr.at("shape").get<std::vector<int64_t>>()));
    } else {
      std::vector<Tree> inputs;
      std::vector<int64_t> integers;
      collect(node.at("args"), inputs, integers);
      if (op == "output") outputs = inputs;
      if (op == "output") return;
      std::string target = op_name(node.at("target"));
      if (inputs.empty() && (target == "aten.div.Tensor" || target == "aten.mul.Tensor")) return;
      if (target == "higher_order.out_dtype")
        target += ":" + node.at("args").at(0).at("repr").get<std::string>();
      if (target == "_operator.getitem") target += fmt::format("{}", integers);
      if (target == "aten.to.dtype") target += node.at("args").at(1).get<std::string>().substr(6);
      trees_[name] = tree_of(target, inputs, integers);
    }
  }

  void collect(const Json& argument, std::vector<Tree>& inputs,
               std::vector<int64_t>& integers) const {
    if (argument.is_array())
      for (const Json& item : argument) collect(item, inputs, integers);
    if (argument.is_number_integer()) integers.push_back(argument.get<int64_t>());
    if (!argument.is_string() || !argument.get<std::string>().starts_with('%')) return;
    const auto found = trees_.find(argument.get<std::string>().substr(1));
    if (found != trees_.end()) inputs.push_back(found->second);
  }

  std::map<std::string, Tree> trees_;
  int placeholders_ = 0;
};

// The trees of an Octet graph.
class GraphTrees {
 public:
  explicit GraphTrees(const Graph& graph) {
    int placeholders = 0;
    for (const GraphInput& input : graph.inputs()) {
      const Tensor* tensor = graph.find_constant(input.value);
      if (tensor != nullptr)
        trees_[input.value] =
            leaf(constant_text(std::string(name_of(tensor->dtype())), tensor->shape()));
      else
        trees_[input.value] = leaf(fmt::format("input {}", placeholders++));
    }
    for (const Node* node : graph.nodes()) add(*node);
    for (const GraphOutput& output : graph.outputs())
      for_each_value(output.value, [&](Value* value) { outputs.push_back(trees_.at(value)); });
  }
  std::vector<Tree> outputs;

 private:
  void add(const Node& node) {
    std::vector<Tree> inputs;
    std::vector<int64_t> integers;
    std::string target = op_name(node.target());
    for (const NamedArgument& argument : node.arguments()) {
      for_each_value(argument.value, [&](Value* value) { inputs.push_back(trees_.at(value)); });
      if (const int64_t* number = argument.value.find<int64_t>()) integers.push_back(*number);
      if (const auto* op = argument.value.find<OperatorRef>()) target += ":" + op_name(op->target);
      if (target == "aten.to.dtype" && argument.name == "dtype")
        target += std::string(name_of(*argument.value.find<DType>()));
    }
    const Tree tree = tree_of(target, inputs, integers);
    const std::vector<Value*> results = node.outputs();
    for (size_t i = 0; i < results.size(); ++i)
      trees_[results[i]] =
          results.size() == 1 ? tree : tree_of(fmt::format("_operator.getitem[{}]", i), {tree}, {});
  }

  std::unordered_map<const Value*, Tree> trees_;
};

std::string difference_of(const std::map<std::string, int>& want,
                          const std::map<std::string, int>& got) {
  std::map<std::string, int> more = got;
  for (const auto& [name, count] : want) more[name] -= count;
  std::string text;
  for (const auto& [name, count] : more)
    if (count != 0) text += fmt::format(" {}{} {}", count > 0 ? "+" : "", count, name);
  return text.empty() ? " the same ops in another order or with other integers" : text;
}

}  // namespace

std::vector<std::string> compare_reference(const Graph& graph, const GoldenCase& golden) {
  const Json json = golden.json("reference.json");
  const GoldenTrees want(json.at("nodes"));
  const GraphTrees got(graph);
  if (want.outputs.size() != got.outputs.size())
    return {fmt::format("{} outputs, want {}", got.outputs.size(), want.outputs.size())};
  std::vector<std::string> differences;
  for (size_t i = 0; i < want.outputs.size(); ++i)
    if (want.outputs[i].hash != got.outputs[i].hash)
      differences.push_back(
          fmt::format("output {}:{}", i, difference_of(want.outputs[i].ops, got.outputs[i].ops)));
  return differences;
}

}  // namespace octet::test
