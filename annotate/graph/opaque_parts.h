// Finds opaque parts: modules, classes of modules, custom ops and groups of ops that a program
// keeps whole. Each occurrence of one in a graph is an island:
//
//   %x ──▶ [ %a = conv2d(%x, %w) ─▶ %b = relu(%a) ─▶ %c = my_ns.nms.default(%b) ] ──▶ %c
//
// with input 0: %x, output 0: %c.
//
// No pass, no pattern and no shared observer crosses its border: while the quantizer works, the ops
// inside have other names and are claimed. Inside, nothing is annotated, or the part's own
// quantizer works as if the island were the program. At the border tensors stay float, except
// inputs and outputs that have a spec there.
#pragma once

#include "annotate/annotation/quant_spec.h"
#include "core/graph/graph.h"

namespace octet {

// Matches nodes against the names used in settings: module paths, module classes (as in
// nn_module_stack) and ops.

// The path without the "L['self']." prefix of older exports.
std::string module_path(const ModuleFrame& frame);
// True when the frame's type is `wanted`; "torch.nn.Linear" also means
// "torch.nn.modules.linear.Linear".
bool is_module_type(const ModuleFrame& frame, const std::string& wanted);
// True when the node's op is `op`, written as for Node::is ("aten.linear", "aten.linear.default")
// or bare ("linear").
bool is_op_type(const Node& node, const std::string& op);

class Quantizer;
struct ObservedGraph;

// One occurrence of a part in a graph.
struct Island {
  std::string name;          // the part: "module \"head\""
  size_t part = 0;           // index into the parts given to find_islands()
  std::vector<Node*> nodes;  // in graph order; never empty
  // tensors that it reads from outside, without constants, in the order of first use
  std::vector<Value*> inputs;
  // tensors that it produces and that are read outside or returned, in graph order
  std::vector<Value*> outputs;
  bool is_recorded = false;
  bool has_quantizer = false;
  std::vector<const Value*> border = {};  // inputs and outputs with a spec
  std::function<void(ObservedGraph& observed, Island& island)> observed_to_quantized = {};
};

// Shares the observer of an input of the island, which must have a spec at the border too.
struct SameAsInput {
  size_t index = 0;
  bool operator==(const SameAsInput&) const = default;
};
using BorderSpec = std::variant<QuantizationSpec, FixedQParamsQuantizationSpec, SameAsInput>;

struct OpaquePart {
  // Selects ops: exactly one of the four is set.
  std::string module = {};  // path of a module; each call of it is an island
  // "my.Decoder", "torch.nn.LSTM": all modules of the class; each call is an island, and one within
  // another belongs to the outer one
  std::string module_type = {};
  // "my_ns.nms.default", "aten.linear" (all overloads), "linear"; each call of the op is an island
  std::string op = {};
  // several ops; calls of them that read each other form one island
  std::vector<std::string> ops = {};

  std::string place = {};  // where it is written, for messages: "npu.json: /opaque/0"; may be empty

  std::shared_ptr<Quantizer> quantizer = {};  // null: nothing inside is quantized
  // By index of the island's input or output. Those without an entry stay float.
  std::map<size_t, BorderSpec> quantized_inputs = {}, quantized_outputs = {};
  // Calibration does not run it; recorded tensors replace its outputs (recorded_parts.h). Not
  // together with a quantizer.
  bool is_recorded = false;

  // Hooks for layers that observe and quantize themselves. The first one runs in prepare_pt2e
  // before annotation, the second one in convert_pt2e before observer nodes become q/dq ops. Each
  // may replace the island's nodes: add nodes to the graph, replace the uses of the outputs, erase
  // the old nodes. Added nodes belong to the island afterwards. Inputs and outputs keep their
  // number and order, by which border specs find them. Pass CalibrateOptions::handlers to
  // calibrate() for nodes that LibTorch cannot run. A part by module_type without hooks uses those
  // registered for the class (register_opaque_hooks).
  //
  // With a quantizer too, the observed form has Octet's observers inside. The second hook sees it
  // without observer nodes, and reads scales with qparams_of (observed_graph.h). What it leaves
  // unused is erased.
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
// covers it. Does not search bodies of control flow.
std::vector<Island> find_islands(const Graph& graph, std::span<const OpaquePart> parts);

// Recomputes inputs and outputs after the graph has changed around the nodes.
void refresh_border(const Graph& graph, Island& island);
// Also recomputes the nodes: those of the graph that are not among `outside`.
void refresh_island(const Graph& graph, const std::vector<Node*>& outside, Island& island);

// The hooks of an OpaquePart; either may be absent.
struct OpaqueHooks {
  std::function<void(Graph& graph, Island& island)> float_to_observed = {};
  std::function<void(ObservedGraph& observed, Island& island)> observed_to_quantized = {};
};

// Registers hooks for a class of modules, which files then refer to by name:
//
//   register_opaque_hooks("my.Lstm", {observe_lstm, quantize_lstm});
//   "opaque": [{"module_type": "my.Lstm"}]
//
// They apply to opaque parts with this module_type that have no hooks. "torch.nn.LSTM" and
// "torch.nn.modules.rnn.LSTM" are one class. Throws Error("quantizer", ...) when the class is empty
// or already has hooks, and when both hooks are absent. Not thread-safe with running prepare_pt2e.
void register_opaque_hooks(const std::string& module_type, OpaqueHooks hooks);

// The part, with the hooks registered for its class when it has none.
OpaquePart with_registered_hooks(OpaquePart part);

}  // namespace octet
