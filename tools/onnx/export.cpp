#include "tools/onnx/export.h"

#include <algorithm>
#include <iterator>
#include <unordered_set>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/passes/pass.h"
#include "core/passes/rewrites.h"
#include "lowering/import/graph.h"
#include "tools/onnx/writer.h"

namespace octet {
namespace {

// Drops nodes that no output needs; adds the values that the others read to `used`.
void keep_used(OnnxGraph& graph, std::unordered_set<std::string>& used) {
  for (const OnnxValue& output : graph.outputs) used.insert(output.name);
  std::vector<OnnxNode> kept;
  while (!graph.nodes.empty()) {
    OnnxNode node = std::move(graph.nodes.back());
    graph.nodes.pop_back();
    if (std::ranges::none_of(node.outputs,
                             [&](const std::string& name) { return used.contains(name); }))
      continue;
    used.insert(node.inputs.begin(), node.inputs.end());
    for (auto& [key, value] : node.attributes)
      if (const auto* body = std::get_if<std::shared_ptr<OnnxGraph>>(&value))
        keep_used(**body, used);
    kept.push_back(std::move(node));
  }
  graph.nodes.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
}

void remove_unused(OnnxModel& model) {
  std::unordered_set<std::string> used;
  keep_used(model, used);
  std::erase_if(model.initializers,
                [&](const OnnxInitializer& constant) { return !used.contains(constant.name); });
}

OnnxModel write(const Graph& graph, const Program& program, OnnxOptions options) {
  OnnxWriter writer(graph, program, options);
  try {
    return writer.run();
  } catch (const Error&) {
    const int64_t wanted = writer.wanted_opset();
    if (options.opset || wanted == 0) throw;
    options.opset = wanted;
    return OnnxWriter(graph, program, options).run();
  }
}

// Folds constants again, because the parts of a decomposed op may compute on constants.
int decompose_and_fold(Graph& graph) {
  const int replaced = decompose(graph, is_imported);
  if (replaced > 0) fold_constants_and_sizes(graph);
  return replaced;
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
                 {"widen_half", [&] { return widen_half(*copy); }, computes_in_half(*copy)},
                 {"inline_bodies", [&] { return inline_bodies(*copy); }},
                 {"fold_input_free", [&] { return fold_constants_and_sizes(*copy); }},
                 {"decompose", [&] { return decompose_and_fold(*copy); }},
                 {"split_complex", [&] { return split_complex(*copy); }},
                 {"remove_dead", [&] { return remove_dead(*copy); }},
             });
  // Without fusion, because runtimes look for quantize and dequantize around their operators. Nodes
  // without a Program op stay whole, and are refused by name together with other ops.
  const Program program = import_graph(*copy, true);
  OnnxModel model = write(*copy, program, options);
  remove_unused(model);
  return model;
}

}  // namespace octet
