#include "annotate/convert/quantized_io.h"

#include <set>
#include <stdexcept>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "annotate/graph/aliasing.h"
#include "annotate/graph/qdq_nodes.h"
#include "core/base/error.h"
#include "core/base/json_text.h"
#include "core/interpreter/inputs.h"
#include "core/pt2/archive.h"

namespace octet {
namespace {

constexpr const char* kIoStage = "quantized-io";
constexpr const char* kRecord = "extra/quantized_io.json";

// What is known about an input or output before anything is edited.
struct Candidate {
  size_t index = 0;
  std::string name;  // name of the Value, "" for literals
  // a float tensor; others are ignored unless listed
  bool is_float = false;
  std::string reason;         // why it cannot become an integer; "": it can
  Quantization quantization;  // set when it can
  size_t output = 0;          // for outputs: index in Graph::outputs()
};

std::string describe(const Node& node) {
  return fmt::format("%{} ({})", node.name(), node.target());
}

// Why the parameters of a quantize or dequantize op are not numbers for the whole tensor; "": they
// are.
std::string fault_of_parameters(const Node& node, const std::optional<Quantization>& quantization) {
  if (quantization && quantization->is_per_channel)
    return fmt::format("{} has a scale per channel, want one for the tensor", describe(node));
  if (!quantization || !quantization->has_numbers())
    return fmt::format("the scale of {} is computed at run time", describe(node));
  return "";
}

bool has_same_numbers(const Quantization& a, const Quantization& b) {
  return a.scale == b.scale && a.zero_point == b.zero_point && a.quant_min == b.quant_min &&
         a.quant_max == b.quant_max && a.dtype == b.dtype;
}

bool may_be_float_tensor(const Value& value) {
  return value.kind() == ValueKind::kTensor &&
         (!value.meta || is_floating_point(value.meta->dtype));
}

// The name of what an output updates with the value, or of the input that the program updates; "":
// none.
std::string update_target(const Graph& graph, const Value& value) {
  for (const GraphOutput& output : graph.outputs()) {
    if (output.kind == OutputKind::kUserInputMutation && output.target == value.name())
      return output.target;
    if (output.kind != OutputKind::kUserOutput && output.value.value_or_null() == &value)
      return output.target;
  }
  return "";
}

// The op that writes to the memory of `value` or of a view of it; null: none.
const Node* find_writer(const Graph& graph, const Value& value) {
  for (const Node* node : graph.nodes()) {
    const std::vector<const Value*> written = written_values(*node);
    if (!written.empty() && memory_roots(written).contains(&value)) return node;
  }
  return nullptr;
}

std::vector<Node*> quantizers_of(const Value& input) {
  std::vector<Node*> result;
  for (Node* user : input.users())
    if (is_quantize(user)) result.push_back(user);
  return result;
}

std::string reason_of_input(const Graph& graph, const Value& input, Quantization& quantization) {
  if (!update_target(graph, input).empty()) return "the program updates it";
  if (input.is_output()) return "it is returned unchanged";
  const std::vector<Node*> quantizers = quantizers_of(input);
  for (const Node* user : input.users())
    if (!is_quantize(user) && !user->is("aten.sym_size"))
      return fmt::format("{} reads it in float", describe(*user));
  if (quantizers.empty()) return "nothing reads it";
  for (const Node* quantizer : quantizers) {
    const std::optional<Quantization> found = find_quantization(quantizer);
    const std::string fault = fault_of_parameters(*quantizer, found);
    if (!fault.empty()) return fault;
    if (quantizer != quantizers.front() && !has_same_numbers(*found, quantization))
      return fmt::format("{} and {} quantize it with different parameters",
                         describe(*quantizers.front()), describe(*quantizer));
    quantization = *found;
  }
  return "";
}

std::string reason_of_output(const Graph& graph, const Value& value, Quantization& quantization) {
  const Node* producer = value.producer();
  if (producer == nullptr) return "it is an unchanged input or constant";
  if (!is_dequantize(producer)) return fmt::format("{} computes it in float", describe(*producer));
  const std::optional<Quantization> found = find_quantization(producer);
  const std::string fault = fault_of_parameters(*producer, found);
  if (!fault.empty()) return fault;
  quantization = *found;
  const std::string target = update_target(graph, value);
  if (!target.empty()) return fmt::format("\"{}\" is updated with it", target);
  for (const Value* tensor : {&value, static_cast<const Value*>(quantization.input)})
    if (const Node* writer = find_writer(graph, *tensor))
      return fmt::format("{} writes into it", describe(*writer));
  const GraphInput* source = graph.find_input(quantization.input);
  if (source != nullptr && source->kind != InputKind::kUserInput) return "it is a constant";
  return "";
}

std::vector<Candidate> candidate_inputs(const Graph& graph) {
  std::vector<Candidate> result;
  for (const GraphInput* input : caller_inputs(graph)) {
    Candidate candidate;
    candidate.index = result.size();
    if (input->value != nullptr) candidate.name = input->value->name();
    candidate.is_float = input->kind == InputKind::kUserInput && input->value != nullptr &&
                         may_be_float_tensor(*input->value);
    if (candidate.is_float)
      candidate.reason = reason_of_input(graph, *input->value, candidate.quantization);
    result.push_back(std::move(candidate));
  }
  return result;
}

std::vector<Candidate> candidate_outputs(const Graph& graph) {
  std::vector<Candidate> result;
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    if (graph.outputs()[i].kind != OutputKind::kUserOutput) continue;
    const Value* value = graph.outputs()[i].value.value_or_null();
    Candidate candidate;
    candidate.index = result.size();
    candidate.output = i;
    if (value != nullptr) candidate.name = value->name();
    candidate.is_float = value != nullptr && may_be_float_tensor(*value);
    if (candidate.is_float)
      candidate.reason = reason_of_output(graph, *value, candidate.quantization);
    result.push_back(std::move(candidate));
  }
  return result;
}

std::string subject_of(const char* what, const Candidate& candidate) {
  return candidate.name.empty() ? fmt::format("{} {}", what, candidate.index)
                                : fmt::format("{} {} (%{})", what, candidate.index, candidate.name);
}

// The candidates that qualify and are wanted.
std::vector<Candidate> choose(const char* what, std::vector<Candidate> all,
                              const std::optional<std::vector<size_t>>& listed, Report& report) {
  std::set<size_t> wanted;
  for (size_t index : listed.value_or(std::vector<size_t>{})) {
    if (index >= all.size())
      throw Error(kIoStage, fmt::format("{} {}", what, index),
                  fmt::format("there is none, got index {}, want less than {}", index, all.size()));
    if (!all[index].is_float)
      throw Error(kIoStage, subject_of(what, all[index]),
                  "is not a float tensor, want one; leave its index out");
    if (!all[index].reason.empty())
      throw Error(kIoStage, subject_of(what, all[index]),
                  fmt::format("cannot be an integer: {}; leave its index out", all[index].reason));
    wanted.insert(index);
  }
  std::vector<Candidate> chosen;
  for (Candidate& candidate : all) {
    if (listed ? !wanted.contains(candidate.index) : !candidate.is_float) continue;
    if (candidate.reason.empty()) {
      chosen.push_back(std::move(candidate));
    } else {
      report.note(fmt::format("{}: {} stays float: {}", kIoStage, subject_of(what, candidate),
                              candidate.reason));
    }
  }
  return chosen;
}

QuantizedIoTensor facts_of(const Candidate& candidate, const Value& value) {
  const Quantization& from = candidate.quantization;
  return {candidate.index, value.name(),   from.scale_number(), *from.zero_point.find<int64_t>(),
          from.quant_min,  from.quant_max, from.dtype};
}

void become_integer(Graph& graph, Value& input, DType dtype) {
  if (input.meta) {
    input.meta->dtype = dtype;
    input.meta->requires_grad = false;
  }
  for (Node* quantizer : quantizers_of(input)) {
    graph.replace_uses(quantizer->output(), &input);
    graph.erase(*quantizer);
  }
}

void return_integer(Graph& graph, size_t output, Value* integer) {
  Node* dequantize = graph.outputs()[output].value.value_or_null()->producer();
  graph.set_output(output, integer);
  if (dequantize->output()->is_unused()) graph.erase(*dequantize);
}

std::vector<QuantizedIoTensor> tensors_of(const nlohmann::ordered_json& json) {
  std::vector<QuantizedIoTensor> tensors;
  for (const nlohmann::ordered_json& row : json) {
    const std::optional<DType> dtype = find_dtype(row.at("dtype").get<std::string>());
    if (!dtype || !(row.at("scale").get<double>() > 0)) throw std::invalid_argument("row");
    tensors.push_back({row.at("index"), row.at("name"), row.at("scale"), row.at("zero_point"),
                       row.at("quant_min"), row.at("quant_max"), *dtype});
  }
  return tensors;
}

// The place among Graph::outputs() of a user output; nothing when there is none.
std::optional<size_t> find_user_output(const Graph& graph, size_t index) {
  for (size_t i = 0; i < graph.outputs().size(); ++i)
    if (graph.outputs()[i].kind == OutputKind::kUserOutput && index-- == 0) return i;
  return std::nullopt;
}

bool is_integer_tensor(const Value* value, const QuantizedIoTensor& tensor) {
  return value != nullptr && value->kind() == ValueKind::kTensor &&
         (!value->meta || value->meta->dtype == tensor.dtype);
}

bool is_io_of(const QuantizedIo& io, const Graph& graph) {
  const std::vector<const GraphInput*> inputs = caller_inputs(graph);
  for (const QuantizedIoTensor& tensor : io.inputs)
    if (tensor.index >= inputs.size() || !is_integer_tensor(inputs[tensor.index]->value, tensor))
      return false;
  for (const QuantizedIoTensor& tensor : io.outputs) {
    const std::optional<size_t> place = find_user_output(graph, tensor.index);
    if (!place || !is_integer_tensor(graph.outputs()[*place].value.value_or_null(), tensor))
      return false;
  }
  return true;
}

// quantize_per_tensor or dequantize_per_tensor of a value.
Value* insert_conversion(Graph& graph, const std::string& name, Value* input,
                         const QuantizedIoTensor& tensor, DType result, Node* before) {
  return graph
      .insert("quantized_decomposed." + name + ".default",
              {{"input", input},
               {"scale", tensor.scale},
               {"zero_point", tensor.zero_point},
               {"quant_min", tensor.quant_min},
               {"quant_max", tensor.quant_max},
               {"dtype", tensor.dtype}},
              name + "_default", with_dtype(input->meta, result), before)
      ->output();
}

nlohmann::ordered_json to_json(const std::vector<QuantizedIoTensor>& tensors) {
  nlohmann::ordered_json result = nlohmann::ordered_json::array();
  for (const QuantizedIoTensor& tensor : tensors)
    result.push_back({{"index", tensor.index},
                      {"name", tensor.name},
                      {"scale", tensor.scale},
                      {"zero_point", tensor.zero_point},
                      {"quant_min", tensor.quant_min},
                      {"quant_max", tensor.quant_max},
                      {"dtype", name_of(tensor.dtype)}});
  return result;
}

}  // namespace

QuantizedIo quantize_io(Graph& graph, const QuantizedIoOptions& options, Report& report) {
  const std::vector<Candidate> inputs =
      choose("input", candidate_inputs(graph), options.inputs, report);
  const std::vector<Candidate> outputs =
      choose("output", candidate_outputs(graph), options.outputs, report);
  QuantizedIo io;
  // Outputs first, because their integers may be results of quantize ops that are removed.
  for (const Candidate& output : outputs)
    return_integer(graph, output.output, output.quantization.input);
  for (const Candidate& input : inputs) {
    Value* value = graph.find_value(input.name);
    become_integer(graph, *value, input.quantization.dtype);
    io.inputs.push_back(facts_of(input, *value));
  }
  for (const Candidate& output : outputs)
    io.outputs.push_back(facts_of(output, *graph.outputs()[output.output].value.value_or_null()));
  return io;
}

std::string to_json_text(const QuantizedIo& io) {
  const nlohmann::ordered_json result = {{"inputs", to_json(io.inputs)},
                                         {"outputs", to_json(io.outputs)}};
  return dump_json(result, 1, true) + "\n";
}

void store_quantized_io(Graph& graph, const QuantizedIo& io) {
  // A copy, because clones of a graph share it.
  const std::shared_ptr<ArchiveExtras> extras =
      graph.extras == nullptr ? std::make_shared<ArchiveExtras>()
                              : std::make_shared<ArchiveExtras>(*graph.extras);
  const std::string samples = fmt::format("data/sample_inputs/{}.pt", extras->model_name);
  std::erase_if(extras->records, [&](const auto& record) {
    return record.first == kRecord || (!io.inputs.empty() && record.first == samples);
  });
  extras->records.emplace_back(kRecord, to_json_text(io));
  graph.extras = extras;
}

std::optional<std::string> stored_quantized_io(const Graph& graph) {
  if (graph.extras == nullptr) return std::nullopt;
  for (const auto& [name, bytes] : graph.extras->records)
    if (name == kRecord) return bytes;
  return std::nullopt;
}

QuantizedIo read_quantized_io(const Graph& graph) {
  const std::optional<std::string> text = stored_quantized_io(graph);
  if (!text) return {};
  QuantizedIo io;
  bool is_whole = true;
  try {
    const nlohmann::ordered_json json = parse_json<nlohmann::ordered_json>(*text);
    io = {tensors_of(json.at("inputs")), tensors_of(json.at("outputs"))};
  } catch (const std::exception&) {
    is_whole = false;
  }
  if (!is_whole || !is_io_of(io, graph))
    throw Error(kIoStage, graph.source.empty() ? "quantized_io.json" : graph.source,
                "the quantized_io.json in it is not what `octet quantize` wrote for this program; "
                "quantize it again");
  return io;
}

void restore_float_io(Graph& graph, const QuantizedIo& io) {
  const std::vector<Node*> nodes = graph.nodes();
  for (const QuantizedIoTensor& tensor : io.inputs) {
    Value* input = caller_inputs(graph).at(tensor.index)->value;
    if (input->meta) input->meta->dtype = DType::kFloat32;
    Value* integer = insert_conversion(graph, "quantize_per_tensor", input, tensor, tensor.dtype,
                                       nodes.empty() ? nullptr : nodes.front());
    const std::vector<Node*> readers = input->users();
    for (Node* reader : readers)
      if (reader != integer->producer() && !reader->is("aten.sym_size"))
        reader->replace_input(input, integer);
    graph.replace_uses_in_outputs(input, integer);
  }
  for (const QuantizedIoTensor& tensor : io.outputs) {
    const size_t place = *find_user_output(graph, tensor.index);
    Value* integer = graph.outputs()[place].value.value_or_null();
    graph.set_output(place, insert_conversion(graph, "dequantize_per_tensor", integer, tensor,
                                              DType::kFloat32, nullptr));
  }
}

}  // namespace octet
