#include "tools/onnx/export.h"

#include <unordered_set>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/passes/pass.h"
#include "core/passes/simplify.h"
#include "lowering/import/known_sizes.h"
#include "tools/onnx/exporter.h"

namespace octet {
namespace {

// Assertions have no form, and what they read none either where nothing else reads it.
int drop_assertions(Graph& graph) {
  int count = 0;
  for (Node* node : graph.nodes())
    for (const char* op : {"aten._assert_scalar", "aten._assert_tensor_metadata",
                           "aten.sym_constrain_range", "aten.sym_constrain_range_for_size"})
      if (node->is(op)) {
        graph.erase(*node);
        ++count;
        break;
      }
  return count;
}

// Nodes and constants that no output needs.
void remove_unused(OnnxModel& model) {
  std::unordered_set<std::string> used;
  for (const OnnxValue& output : model.outputs) used.insert(output.name);
  std::vector<bool> is_kept(model.nodes.size());
  for (size_t i = model.nodes.size(); i-- > 0;) {
    OnnxNode& node = model.nodes[i];
    for (const std::string& name : node.outputs) is_kept[i] = is_kept[i] || used.contains(name);
    if (is_kept[i]) used.insert(node.inputs.begin(), node.inputs.end());
  }
  size_t next = 0;
  for (size_t i = 0; i < model.nodes.size(); ++i)
    if (is_kept[i]) {
      if (next != i) model.nodes[next] = std::move(model.nodes[i]);
      ++next;
    }
  model.nodes.resize(next);
  std::erase_if(model.initializers,
                [&](const OnnxInitializer& constant) { return !used.contains(constant.name); });
}

OnnxModel convert(const Graph& graph, OnnxOptions options) {
  OnnxExporter exporter(graph, options);
  try {
    return exporter.run();
  } catch (const Error&) {
    const int64_t wanted = exporter.wanted_opset();
    if (options.opset || wanted == 0) throw;
    options.opset = wanted;
    return OnnxExporter(graph, options).run();
  }
}

}  // namespace

OnnxModel to_onnx(const Graph& graph, const OnnxOptions& options) {
  const std::optional<int64_t>& opset = options.opset;
  if (opset && (*opset < kLeastOpset || *opset > kGreatestOpset))
    throw Error("onnx", fmt::format("--opset {}", *opset),
                fmt::format("is not known here, want {} to {}", kLeastOpset, kGreatestOpset));
  const std::unique_ptr<Graph> copy = clone(graph);
  run_passes("onnx", *copy,
             {
                 {"inline_bodies", [&] { return inline_bodies(*copy); }},
                 {"drop_assertions", [&] { return drop_assertions(*copy); }},
                 {"fold_input_free", [&] { return fold_constants_and_sizes(*copy); }},
                 {"remove_dead", [&] { return remove_dead(*copy); }},
             });
  OnnxModel model = convert(*copy, options);
  remove_unused(model);
  return model;
}

}  // namespace octet
