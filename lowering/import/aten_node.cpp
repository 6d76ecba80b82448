// Nodes that no row of the import knows, kept whole for the backend torch: an op of kind "aten"
// that holds the node as a graph of its own, in text.
#include <map>

#include "core/text/text.h"
#include "lowering/import/importer.h"

namespace octet {

std::string find_part_missing(const Node& node) {
  const std::vector<Value*> results = node.outputs();
  if (results.empty()) return "gives no tensor";
  for (const Value* value : results)
    if (value->kind() != ValueKind::kTensor || !value->meta)
      return "gives something else than tensors";
  for (const Value* value : node.inputs())
    if (value->kind() != ValueKind::kTensor) return "takes sizes that are not fixed";
  return "";
}

std::string keep_whole(Importer& importer, const Node& node) {
  if (std::string missing = find_part_missing(node); !missing.empty()) return missing;
  const std::vector<Value*> results = node.outputs();
  Graph graph;
  std::map<Value*, Value*> copies;
  std::vector<int> inputs;
  const auto copy_of = [&](Value* value) {
    Value*& copy = copies[value];
    if (copy != nullptr) return copy;
    const int tensor = importer.tensor_of(value);
    inputs.push_back(tensor);
    return copy = graph.add_input(
               value->name(), ValueKind::kTensor,
               make_meta(importer.tensor(tensor).dtype, importer.tensor(tensor).shape));
  };
  std::vector<NamedArgument> arguments = node.arguments();
  for (NamedArgument& argument : arguments) rewrite_values(argument.value, copy_of);
  Node* twin = graph.add_node(node.target(), std::move(arguments), node.name());
  for (const ResultSlot& slot : node.results()) {
    std::vector<std::string> names;
    std::vector<std::optional<TensorMeta>> metas;
    for (const Value* value : slot.values) {
      if (value == nullptr) return "has results that are absent";
      names.push_back(value->name());
      metas.push_back(make_meta(value->meta->dtype, value->meta->shape()));
    }
    if (slot.kind == ResultSlot::Kind::kLiteral)
      graph.add_literal_result(*twin, slot.literal);
    else if (slot.kind == ResultSlot::Kind::kSingle)
      graph.add_result(*twin, names[0], metas[0]);
    else
      graph.add_list_result(*twin, names, metas);
  }
  for (Value* value : twin->outputs()) graph.add_output({value, OutputKind::kUserOutput, ""});
  Attributes attributes;
  attributes["op"] = node.target();
  attributes["graph"] = to_text(graph);
  importer.emit_values(node, results, "aten", std::move(inputs), std::move(attributes));
  return "";
}

}  // namespace octet
