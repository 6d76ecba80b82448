#include "lowering/import/call_spec.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/json_text.h"
#include "core/pt2/archive.h"
#include "lowering/program/program_json.h"

namespace octet {
namespace {

using nlohmann::json;

// The containers of an argument may be nested deeper than anything else that Octet reads.
constexpr size_t kDeepestTree = 200;

struct Literal {
  std::optional<json> operator()(const None&) const { return json(nullptr); }
  std::optional<json> operator()(bool value) const { return json(value); }
  std::optional<json> operator()(int64_t value) const { return json(value); }
  std::optional<json> operator()(double value) const {
    if (std::isfinite(value)) return json(value);
    return json{{"float", fmt::format("{}", value)}};
  }
  std::optional<json> operator()(const std::string& value) const { return json(value); }
  std::optional<json> operator()(const SymIntLiteral& value) const { return json(value.value); }
  std::optional<json> operator()(const SymBoolLiteral& value) const { return json(value.value); }
  std::optional<json> operator()(const SymFloatLiteral& value) const {
    return (*this)(value.value);
  }
  template <typename Other>
  std::optional<json> operator()(const Other&) const {
    return std::nullopt;
  }
};

// As JSON; numbers that are not finite are {"float": "inf"}. Nothing for what the export does not
// record as a literal.
std::optional<json> find_literal(const Argument& argument) {
  return std::visit(Literal(), static_cast<const ArgumentVariant&>(argument));
}

bool is_leaf(const json& tree) { return tree.at("type").is_null(); }

size_t leaves_of(const json& tree) {
  if (is_leaf(tree)) return 1;
  size_t count = 0;
  for (const json& child : tree.at("children_spec")) count += leaves_of(child);
  return count;
}

bool is_flat_tuple(const json& tree) {
  const json& children = tree.at("children_spec");
  return tree.at("type") == "builtins.tuple" &&
         std::all_of(children.begin(), children.end(), is_leaf);
}

// "[1, {...}]", as torch.utils._pytree.treespec_dumps writes it.
json tree_of(const json& signature, const char* key, const Graph& graph) {
  const std::string text = signature.at(key).get<std::string>();
  if (nests_deeper(text, kDeepestTree))
    throw Error("lower", graph.source,
                fmt::format("its {} is nested deeper than {}; give fewer levels of containers", key,
                            kDeepestTree));
  return parse_json<json>(text).at(1);
}

// For each value [its literal], or null for a tensor.
json literals_of(const std::vector<const Argument*>& values) {
  json literals = json::array();
  for (const Argument* value : values) {
    const std::optional<json> literal = value == nullptr ? std::nullopt : find_literal(*value);
    literals.push_back(literal ? json::array({*literal}) : json());
  }
  return literals;
}

bool has_literals(const json& literals) {
  return std::any_of(literals.begin(), literals.end(),
                     [](const json& literal) { return !literal.is_null(); });
}

json spec_of(const Graph& graph, const json& module) {
  const json& signature = module.at("module_call_graph").at(0).at("signature");
  json spec = {{"in", tree_of(signature, "in_spec", graph)},
               {"out", tree_of(signature, "out_spec", graph)},
               {"names", signature.value("forward_arg_names", json())},
               {"fields", module.value("treespec_namedtuple_fields", json::object())}};
  std::vector<const Argument*> inputs, outputs;
  for (const GraphInput& input : graph.inputs())
    if (input.kind == InputKind::kConstant || input.kind == InputKind::kUserInput)
      inputs.push_back(input.value->kind() == ValueKind::kNone ? &input.constant : nullptr);
  for (const GraphOutput& output : graph.outputs())
    if (output.kind == OutputKind::kUserOutput) outputs.push_back(&output.value);
  // An edited program may have others than were exported; it is called with a flat list.
  if (leaves_of(spec.at("in")) != inputs.size() || leaves_of(spec.at("out")) != outputs.size())
    return {};
  spec["inputs"] = literals_of(inputs);
  spec["outputs"] = literals_of(outputs);
  return spec;
}

bool is_flat(const json& spec) {
  const json& arguments = spec.at("in").at("children_spec");
  const json& out = spec.at("out");
  return arguments.size() == 2 && is_flat_tuple(arguments.at(0)) &&
         arguments.at(1).at("children_spec").empty() && !has_literals(spec.at("inputs")) &&
         !has_literals(spec.at("outputs")) &&
         (is_leaf(out) || (is_flat_tuple(out) && out.at("children_spec").size() > 1));
}

}  // namespace

bool is_literal(const Argument& argument) { return find_literal(argument).has_value(); }

std::string call_spec_of(const Graph& graph) {
  if (!graph.extras || graph.extras->program_json.empty()) return "";
  try {
    const json program = parse_json<json>(graph.extras->program_json);
    const json spec = spec_of(graph, program.at("graph_module"));
    return spec.is_null() || is_flat(spec) ? "" : dump_json(spec);
  } catch (const json::exception& fault) {
    throw Error("lower", graph.source,
                fmt::format("the tree of its arguments or results is damaged ({}); export it again",
                            fault.what()));
  }
}

}  // namespace octet
