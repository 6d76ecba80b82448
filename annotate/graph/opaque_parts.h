// Opaque parts: modules, classes of modules, custom ops and groups of ops that a program keeps
// whole. What stands for one in a graph is an island:
//
//   %x ──▶ [ %a = conv2d(%x, %w) ─▶ %b = relu(%a) ─▶ %c = my_ns.nms.default(%b) ] ──▶ %c
//
// with input 0: %x, output 0: %c.
//
// No pass, no pattern and no shared observer reaches over its border: while the quantizer works the
// ops inside go by other names and are claimed. Inside nothing is annotated, or the part's own
// quantizer works as if the island were the program. At the border tensors stay float, but for
// inputs and outputs that have a spec there.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "annotate/annotation/quant_spec.h"
#include "core/graph/graph.h"

namespace octet {

class Quantizer;
struct ObservedGraph;

// One place of a part in a graph.
struct Island {
  std::string name;          // of the part: "module \"head\""
  size_t part = 0;           // index into the parts that it was found with
  std::vector<Node*> nodes;  // in graph order; never empty
  // tensors that it reads from elsewhere, constants excepted, in the order of first use
  std::vector<Value*> inputs;
  // tensors that it makes and that are read elsewhere or returned, in graph order
  std::vector<Value*> outputs;
  bool is_recorded = false;
  bool has_quantizer = false;
  std::function<void(ObservedGraph& observed, Island& island)> observed_to_quantized = {};
};

// Shares the observer of an input of the island, which has a spec at the border too.
struct SameAsInput {
  size_t index = 0;
  bool operator==(const SameAsInput&) const = default;
};
using BorderSpec = std::variant<QuantizationSpec, FixedQParamsQuantizationSpec, SameAsInput>;

struct OpaquePart {
  // Which ops: exactly one of the four is set.
  std::string module = {};  // a module's path; each call of the module is an island
  // "my.Decoder", "torch.nn.LSTM": all modules of the class, each call of each an island; one
  // within another belongs to the outer one
  std::string module_type = {};
  // "my_ns.nms.default", "aten.linear" (all overloads), "linear"; each call of the op is an island
  std::string op = {};
  // likewise; calls of these ops that read each other are one island
  std::vector<std::string> ops = {};

  std::string place = {};  // where it is written, for messages: "npu.json: /opaque/0"; may be empty

  std::shared_ptr<Quantizer> quantizer = {};  // null: nothing inside is quantized
  // By index of the island's input or output. An input without entry is handed in as float, an
  // output without entry is handed on as float.
  std::map<size_t, BorderSpec> quantized_inputs = {}, quantized_outputs = {};
  // Calibration does not run it; recorded tensors stand for its outputs (recorded_parts.h). Not
  // together with a quantizer.
  bool is_recorded = false;

  // A pair of hooks for layers that observe and quantize themselves. The first one runs in
  // prepare_pt2e before anything is annotated, the second one in convert_pt2e before observer
  // nodes become q/dq ops. Each may replace the island's nodes by others: add nodes to the graph,
  // replace the uses of the outputs, erase the old nodes. What it adds is in the island afterwards.
  // The inputs and outputs keep their number and order, by which border specs find them.
  // calibrate() is told how to run custom nodes (CalibrateOptions::handlers). A part by module_type
  // without hooks has those that are registered for the class (opaque_hooks.h).
  std::function<void(Graph& graph, Island& island)> float_to_observed = {};
  std::function<void(ObservedGraph& observed, Island& island)> observed_to_quantized = {};
};

// "module \"head\"", "module_type \"my.Decoder\"", "op my_ns.nms.default", "ops aten.mul,
// aten.add".
std::string name_of(const OpaquePart& part);

// Throws Error("quantizer", name_of(part), ...) unless exactly one of module, module_type,
// op and ops is set, and for contradictions.
void check_opaque_part(const OpaquePart& part);

// The islands of one graph, by part and then in graph order. A node belongs to the first part that
// covers it. Does not look into bodies of control flow.
std::vector<Island> find_islands(const Graph& graph, std::span<const OpaquePart> parts);

// Finds inputs and outputs anew after the graph has changed around the nodes.
void refresh_border(const Graph& graph, Island& island);
// Finds the nodes too: those of the graph that are not among `outside`.
void refresh_island(const Graph& graph, const std::vector<Node*>& outside, Island& island);

// Hooks of opaque parts by class of module: a library registers them once, files name the class.
//
//   register_opaque_hooks("my.Lstm", {observe_lstm, quantize_lstm});
//
//   "opaque": [{"module_type": "my.Lstm"}]

// The pair of hooks of an OpaquePart; either may be absent.
struct OpaqueHooks {
  std::function<void(Graph& graph, Island& island)> float_to_observed = {};
  std::function<void(ObservedGraph& observed, Island& island)> observed_to_quantized = {};
};

// For the opaque parts with this module_type that have no hooks of their own. "torch.nn.LSTM" and
// "torch.nn.modules.rnn.LSTM" are one class. Throws Error("quantizer", ...) when the class is empty
// or has hooks already, and when both hooks are absent. Not while other threads prepare.
void register_opaque_hooks(const std::string& module_type, OpaqueHooks hooks);

// The part with the hooks that are registered for its class, if there are any and it has none.
OpaquePart with_registered_hooks(OpaquePart part);

}  // namespace octet
