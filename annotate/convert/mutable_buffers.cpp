#include "annotate/convert/mutable_buffers.h"

#include <algorithm>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include "annotate/graph/qdq_nodes.h"
#include "core/interpreter/aten_bridge.h"
#include "core/ops/qdq_kernels.h"

namespace octet {
namespace {

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

// Fills `state` for a buffer that the program writes dequantized values to; the reason when it
// cannot be stored quantized.
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
      return fmt::format("%{} is another name of it", result->name());
  }
  if (buffer->is_output()) return "it is an output";
  for (Node* user : buffer->users()) {
    const bool is_write = std::any_of(state.writes.begin(), state.writes.end(),
                                      [&](const Write& write) { return write.copy == user; });
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

// The quantized value that `read` gives is still used when the buffer holds the next one.
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

int fold_quantize_into_mutable_buffers(Graph& graph, Report& report) {
  std::vector<State> states;
  for (const GraphInput& input : graph.inputs()) {
    if (input.kind != InputKind::kBuffer || graph.find_constant(input.value) == nullptr) continue;
    State state{.input = &input, .writes = find_writes(graph, input)};
    const bool is_written_quantized =
        std::any_of(state.writes.begin(), state.writes.end(),
                    [](const Write& write) { return write.dequantize != nullptr; });
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
