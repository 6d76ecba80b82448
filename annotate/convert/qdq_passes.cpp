// Passes of convert after q/dq ops are inserted: one dequantize per consumer, metadata on the new
// ops, constants and buffers stored quantized.
#include <algorithm>

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include "annotate/convert/convert.h"
#include "annotate/convert/convert_steps.h"
#include "annotate/graph/aliasing.h"
#include "annotate/graph/constant_subgraph.h"
#include "annotate/graph/qdq_nodes.h"
#include "core/interpreter/aten_bridge.h"
#include "core/interpreter/interpreter.h"
#include "core/ops/qdq_kernels.h"
#include "core/passes/rewrites.h"

namespace octet {
namespace {

bool has_specs(const Annotations& annotations, const Node* node) {
  const QuantizationAnnotation* annotation = annotations.find(node);
  return annotation != nullptr &&
         (!annotation->input_qspec_map.empty() || annotation->has_output_spec());
}

std::vector<Node*> users_without_sizes(const Value& value) {
  std::vector<Node*> users;
  for (Node* user : value.users())
    if (!user->is("aten.sym_size")) users.push_back(user);
  return users;
}

// Whether convert inserted the op with its own scale.
bool is_inserted_quantize(const Node* node) {
  return is_quantize(node) ||
         (node != nullptr && node->target() == "torchao.quantize_affine.default");
}
bool is_inserted_dequantize(const Node* node) {
  return is_dequantize(node) ||
         (node != nullptr && node->target() == "torchao.dequantize_affine.default");
}

// The value at the other end of a chain of quantize and dequantize ops.
const Value* quantized_value(const Node* node) {
  const Value* value = nullptr;
  while (is_inserted_quantize(node) || is_inserted_dequantize(node)) {
    value = node->find_input("input");
    if (value == nullptr) return nullptr;
    node = value->producer();
  }
  return value;
}

struct Write {
  Node* copy = nullptr;  // null: the program's mutation output
  size_t output = 0;
  Node* dequantize = nullptr;
};

struct State {
  const GraphInput* input = nullptr;
  std::vector<Node*> reads = {};  // quantize ops
  std::vector<Write> writes = {};
  std::optional<Quantization> stored = std::nullopt;
};

bool has_same_parameters(const Quantization& a, const Quantization& b) {
  return a.has_numbers() && b.has_numbers() && !a.is_per_channel && !b.is_per_channel &&
         a.scale_number() == b.scale_number() && a.zero_point == b.zero_point &&
         a.quant_min == b.quant_min && a.quant_max == b.quant_max && a.dtype == b.dtype;
}

Node* dequantize_of(const Value* value) {
  Node* node = value == nullptr ? nullptr : value->producer();
  return is_dequantize(node) ? node : nullptr;
}

std::vector<Write> find_writes(const Graph& graph, const GraphInput& input) {
  std::vector<Write> writes;
  for (Node* user : input.value->users())
    if (user->target() == "aten.copy_.default" && user->find_input("self") == input.value)
      writes.push_back({.copy = user, .dequantize = dequantize_of(user->find_input("src"))});
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    const GraphOutput& output = graph.outputs()[i];
    if (output.kind == OutputKind::kBufferMutation && output.target == input.fqn)
      writes.push_back({.output = i, .dequantize = dequantize_of(output.value.value_or_null())});
  }
  return writes;
}

// Fills `state` for a buffer that the program writes dequantized values to. Returns why it cannot
// be stored quantized, or "".
std::string check_state(State& state) {
  const Value* buffer = state.input->value;
  for (const Write& write : state.writes) {
    if (write.dequantize == nullptr) return "one of its writes is not quantized";
    const std::optional<Quantization> q = find_quantization(write.dequantize);
    if (!q || !has_same_parameters(*q, *q))
      return "it is not quantized per tensor with constant scale and zero point";
    if (state.stored && !has_same_parameters(*q, *state.stored))
      return "its writes have different scales or zero points";
    state.stored = q;
    const Value* result = write.copy == nullptr ? nullptr : write.copy->output_or_null();
    if (result != nullptr && !result->is_unused())
      return fmt::format("%{} is an alias of it", result->name());
  }
  if (buffer->is_output()) return "it is an output";
  for (Node* user : buffer->users()) {
    const bool is_write =
        std::ranges::any_of(state.writes, [&](const Write& write) { return write.copy == user; });
    if (is_write) continue;
    const std::optional<Quantization> q =
        is_quantize(user) ? find_quantization(user) : std::nullopt;
    if (!q)
      return fmt::format("{} ({}) reads or changes it unquantized", user->name(), user->target());
    if (!has_same_parameters(*q, *state.stored))
      return fmt::format("{} reads it with another scale or zero point than it is written with",
                         user->name());
    state.reads.push_back(user);
  }
  return "";
}

// Whether the quantized value that `read` gives is still used after a write to the buffer.
bool outlives_a_write(const Graph& graph, const Node& read, const State& state) {
  for (const Write& write : state.writes)
    for (const Node* user : read.output()->users())
      if (write.copy != nullptr && graph.is_before(read, *write.copy) &&
          graph.is_before(*write.copy, *user))
        return true;
  return read.output()->is_output();
}

void store_quantized(Graph& graph, const State& state) {
  Value* buffer = state.input->value;
  const Quantization& q = *state.stored;
  Constant& constant = graph.constants.at(state.input->fqn);
  constant.tensor = from_aten(qdq::quantize_per_tensor(to_aten(constant.tensor), q.scale_number(),
                                                       *q.zero_point.find<int64_t>(), q.quant_min,
                                                       q.quant_max, to_scalar_type(q.dtype)));
  if (buffer->meta) buffer->meta->dtype = q.dtype;
  for (Node* read : state.reads) {
    Value* value = buffer;
    if (outlives_a_write(graph, *read, state))
      value = graph.insert("aten.clone.default", {{"self", buffer}}, "clone", buffer->meta, read)
                  ->output();
    graph.replace_uses(read->output(), value);
    graph.erase(*read);
  }
  for (const Write& write : state.writes) {
    Value* quantized = write.dequantize->find_input("input");
    if (write.copy == nullptr) {
      graph.set_output(write.output, quantized);
      continue;
    }
    write.copy->set_argument("src", quantized);
    if (Value* result = write.copy->output_or_null(); result != nullptr && result->meta)
      result->meta->dtype = q.dtype;
  }
}

}  // namespace

int duplicate_dequantize(Graph& graph, const Annotations& annotations, Compat compat) {
  std::optional<Writes> writes;
  if (compat == Compat::kNone) writes.emplace(graph);
  int copies = 0;
  for (Node* dequantize : graph.nodes()) {
    if (!is_dequantize(dequantize)) continue;
    const std::vector<Node*> users = users_without_sizes(*dequantize->output());
    if (users.size() + (dequantize->output()->is_output() ? 1 : 0) <= 1) continue;
    const Node* choose = find_choose_qparams(dequantize);
    if (choose != nullptr && choose->target() == "quantized_decomposed.choose_qparams.tensor")
      continue;
    Node* before = graph.find_next(*dequantize);
    for (Node* user : users) {
      if (!has_specs(annotations, user)) continue;
      if (writes && !writes->allow_copy(*dequantize->output(), {user}, dequantize)) continue;
      Node* copy = graph.insert(dequantize->target(), dequantize->arguments(), dequantize->name(),
                                dequantize->output()->meta, before);
      copy->metadata = dequantize->metadata;
      user->replace_input(dequantize->output(), copy->output());
      before = copy;
      ++copies;
    }
    if (dequantize->output()->is_unused()) graph.erase(*dequantize);
  }
  return copies;
}

void port_qdq_metadata(Graph& graph, const Annotations& annotations) {
  for (Node* node : graph.nodes()) {
    const QuantizationAnnotation* annotation = annotations.find(node);
    if (annotation == nullptr) continue;
    for (Value* input : node->inputs()) {
      Node* dequantize = input->producer();
      if (!is_inserted_dequantize(dequantize) ||
          annotation->find_input(quantized_value(dequantize)) == nullptr)
        continue;
      port_metadata(*dequantize, node->metadata);
      Node* choose = find_choose_qparams(dequantize);
      if (choose == nullptr) continue;
      port_metadata(*choose, node->metadata);
      port_metadata(*dequantize->find_input("input")->producer(), node->metadata);
    }
    for (const Value* output : node->outputs()) {
      if (annotation->find_output(output) == nullptr) continue;
      const std::vector<Node*> users = users_without_sizes(*output);
      if (users.size() == 1 && is_inserted_quantize(users.front()))
        port_metadata(*users.front(), node->metadata);
    }
  }
}

namespace {

// Computes each op on constants for which `is_wanted` holds.
int fold_constants(Graph& graph, bool (*is_wanted)(const Node*)) {
  const std::unordered_set<const Value*> constants = find_constant_values(graph);
  int folds = 0;
  int number = 0;
  for (Node* node : graph.nodes()) {
    if (!is_wanted(node)) continue;
    const std::vector<Value*> inputs = node->inputs();
    if (!std::ranges::all_of(inputs, [&](const Value* input) { return constants.contains(input); }))
      continue;
    const Graph part = extract_constant_part(graph, {node->output()});
    const std::vector<c10::IValue> results = Interpreter(part).run({});
    const Tensor quantized = from_aten(results.at(0).toTensor().contiguous());
    while (graph.constants.contains(fmt::format("_frozen_param{}", number))) ++number;
    Value* stored = graph.add_constant(fmt::format("_frozen_param{}", number++), quantized);
    graph.replace_uses(node->output(), stored);
    ++folds;
  }
  if (folds > 0) remove_dead(graph, DeadInputs::kRemove);
  return folds;
}

bool is_to_float16(const Node* node) {
  const Argument* dtype = node->target() == "quantized_decomposed.convert_element_type.no_fuse"
                              ? node->find_argument("dtype")
                              : nullptr;
  return dtype != nullptr && *dtype == Argument(DType::kFloat16);
}

}  // namespace

int fold_quantized_constants(Graph& graph) { return fold_constants(graph, is_inserted_quantize); }
int fold_float16_constants(Graph& graph) { return fold_constants(graph, is_to_float16); }

int fold_quantize_into_mutable_buffers(Graph& graph, Report& report) {
  std::vector<State> states;
  for (const GraphInput& input : graph.inputs()) {
    if (input.kind != InputKind::kBuffer || graph.find_constant(input.value) == nullptr) continue;
    State state{.input = &input, .writes = find_writes(graph, input)};
    const bool is_written_quantized = std::ranges::any_of(
        state.writes, [](const Write& write) { return write.dequantize != nullptr; });
    if (!is_written_quantized) continue;
    const std::string reason = check_state(state);
    if (reason.empty())
      states.push_back(std::move(state));
    else
      report.note(fmt::format("convert: the buffer {} stays float: {}", input.fqn, reason));
  }
  for (const State& state : states) store_quantized(graph, state);
  return static_cast<int>(states.size());
}

}  // namespace octet
