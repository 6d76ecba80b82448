#include "core/pt2/writer.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/json_text.h"
#include "core/pt2/archive.h"
#include "core/pt2/schema.h"

namespace octet {
namespace {

using nlohmann::json;

// ---- signature

// T: a spec with arg and perhaps more, which `set_more` sets. (Its setters are templates since
// torch 2.13, so no pointer to a member works with all versions.)
template <typename T, typename Arg, typename SetMore = decltype([](T&) {})>
T spec_of(Arg arg, SetMore set_more = {}) {
  T result;
  result.set_arg(std::move(arg));
  set_more(result);
  return result;
}

schema::InputSpec encode_input(const GraphInput& from, const std::string& subject) {
  schema::InputSpec spec;
  const Value& value = *from.value;
  const auto tensor = name_argument<schema::TensorArgument>(value);
  switch (from.kind) {
    case InputKind::kUserInput:
      spec.set_user_input(spec_of<schema::UserInputSpec>(encode_argument(
          value.kind() == ValueKind::kNone ? from.constant : Argument(from.value), subject)));
      break;
    case InputKind::kParameter:
      spec.set_parameter(spec_of<schema::InputToParameterSpec>(
          tensor, [&](auto& to) { to.set_parameter_name(from.fqn); }));
      break;
    case InputKind::kBuffer:
      spec.set_buffer(spec_of<schema::InputToBufferSpec>(tensor, [&](auto& to) {
        to.set_buffer_name(from.fqn);
        to.set_persistent(from.persistent);
      }));
      break;
    case InputKind::kTensorConstant:
      spec.set_tensor_constant(spec_of<schema::InputToTensorConstantSpec>(
          tensor, [&](auto& to) { to.set_tensor_constant_name(from.fqn); }));
      break;
    case InputKind::kCustomObj:
      spec.set_custom_obj(spec_of<schema::InputToCustomObjSpec>(
          encode_custom_object(value), [&](auto& to) { to.set_custom_obj_name(from.fqn); }));
      break;
    case InputKind::kToken:
      spec.set_token(spec_of<schema::InputTokenSpec>(name_argument<schema::TokenArgument>(value)));
      break;
    case InputKind::kConstant: {
      auto constant = name_argument<schema::InputToConstantInputSpec>(value);
      constant.set_value(encode_constant(from.constant, subject));
      spec.set_constant_input(std::move(constant));
      break;
    }
  }
  return spec;
}

schema::OutputSpec encode_output(const GraphOutput& from, const std::string& subject) {
  schema::OutputSpec spec;
  if (from.kind == OutputKind::kUserOutput) {
    spec.set_user_output(spec_of<schema::UserOutputSpec>(encode_argument(from.value, subject)));
    return spec;
  }
  const Value* value = from.value.value_or_null();
  if (value == nullptr)
    throw Error(
        "pt2", subject,
        fmt::format("the output that updates \"{}\" is a literal, want a tensor", from.target));
  const auto tensor = name_argument<schema::TensorArgument>(*value);
  switch (from.kind) {
    case OutputKind::kUserOutput: break;
    case OutputKind::kLoss: spec.set_loss_output(spec_of<schema::LossOutputSpec>(tensor)); break;
    case OutputKind::kBufferMutation:
      spec.set_buffer_mutation(spec_of<schema::BufferMutationSpec>(
          tensor, [&](auto& to) { to.set_buffer_name(from.target); }));
      break;
    case OutputKind::kParameterMutation:
      spec.set_parameter_mutation(spec_of<schema::ParameterMutationSpec>(
          tensor, [&](auto& to) { to.set_parameter_name(from.target); }));
      break;
    case OutputKind::kUserInputMutation:
      spec.set_user_input_mutation(spec_of<schema::UserInputMutationSpec>(
          tensor, [&](auto& to) { to.set_user_input_name(from.target); }));
      break;
    case OutputKind::kGradientToParameter:
      spec.set_gradient_to_parameter(spec_of<schema::GradientToParameterSpec>(
          tensor, [&](auto& to) { to.set_parameter_name(from.target); }));
      break;
    case OutputKind::kGradientToUserInput:
      spec.set_gradient_to_user_input(spec_of<schema::GradientToUserInputSpec>(
          tensor, [&](auto& to) { to.set_user_input_name(from.target); }));
      break;
    case OutputKind::kToken:
      spec.set_token(
          spec_of<schema::OutputTokenSpec>(name_argument<schema::TokenArgument>(*value)));
      break;
  }
  return spec;
}

json encode_signature(const Graph& graph, const std::string& subject) {
  schema::GraphSignature signature;
  std::vector<schema::InputSpec> inputs;
  std::vector<schema::OutputSpec> outputs;
  for (const GraphInput& input : graph.inputs()) inputs.push_back(encode_input(input, subject));
  for (const GraphOutput& output : graph.outputs())
    outputs.push_back(encode_output(output, subject));
  signature.set_input_specs(std::move(inputs));
  signature.set_output_specs(std::move(outputs));
  return json(signature);
}

// ---- the program around it

// A pytree of `count` leaves in a tuple.
json tuple_spec(size_t count) {
  const json leaf = {{"type", nullptr}, {"context", nullptr}, {"children_spec", json::array()}};
  return {{"type", "builtins.tuple"},
          {"context", "null"},
          {"children_spec", json(std::vector<json>(count, leaf))}};
}

// For a graph that was not read from an archive: positional arguments, a tuple of outputs.
json make_program(const Graph& graph) {
  const auto is_argument = [](const GraphInput& input) {
    return input.kind == InputKind::kUserInput || input.kind == InputKind::kConstant;
  };
  json names = json::array();
  for (const GraphInput& input : graph.inputs())
    if (is_argument(input)) names.push_back(input.value->name());
  const size_t outputs =
      static_cast<size_t>(std::ranges::count_if(graph.outputs(), [](const GraphOutput& output) {
        return output.kind == OutputKind::kUserOutput;
      }));
  const json no_keywords = {
      {"type", "builtins.dict"}, {"context", "[]"}, {"children_spec", json::array()}};
  const json inputs = {{"type", "builtins.tuple"},
                       {"context", "null"},
                       {"children_spec", {tuple_spec(names.size()), no_keywords}}};
  const json signature = {{"inputs", json::array()},
                          {"outputs", json::array()},
                          {"in_spec", dump_json(json::array({1, inputs}))},
                          {"out_spec", dump_json(json::array({1, tuple_spec(outputs)}))},
                          {"forward_arg_names", names}};
  const json module = {
      {"module_call_graph", json::array({{{"fqn", ""}, {"signature", signature}}})},
      {"metadata", json::object()},
      {"treespec_namedtuple_fields", json::object()}};
  return {{"graph_module", module},
          {"opset_version", {{"aten", 10}}},
          {"schema_version", {{"major", 8}, {"minor", 20}}},
          {"verifiers", {"TRAINING"}},
          {"torch_version", "2.13.0"},
          {"guards_code", json::array()}};
}

json encode_program(const Graph& graph, const ArchiveExtras& extras, const std::string& subject) {
  json program =
      extras.program_json.empty() ? make_program(graph) : parse_json<json>(extras.program_json);
  json body(encode_graph(graph, subject));
  if (!extras.custom_obj_values_json.empty()) {
    const json objects = parse_json<json>(extras.custom_obj_values_json);
    for (const auto& [name, facts] : objects.items())
      if (graph.find_value(name) != nullptr) body["custom_obj_values"][name] = facts;
  }
  json signature = encode_signature(graph, subject);
  restore_minus_infinity(body);
  restore_minus_infinity(signature);
  program["graph_module"]["graph"] = std::move(body);
  program["graph_module"]["signature"] = std::move(signature);
  json ranges = json::object();
  for (const auto& [symbol, range] : graph.range_constraints) {
    schema::RangeConstraint constraint;
    constraint.set_min_val(range.min);
    constraint.set_max_val(range.max);
    ranges[symbol] = constraint;
  }
  program["range_constraints"] = std::move(ranges);
  return program;
}

// ---- tensors

// Which of the two tables each constant belongs to, in the order to write: first in the order of
// the file, then in the order of inputs.
struct PayloadOrder {
  std::vector<std::string> weights;    // state dict: parameters, persistent buffers
  std::vector<std::string> constants;  // the rest
};

PayloadOrder order_payloads(const Graph& graph, const ArchiveExtras& extras) {
  // by fqn; from the signature, else from the file
  std::map<std::string, bool> is_weight;
  for (const std::string& fqn : extras.weight_order) is_weight[fqn] = true;
  for (const std::string& fqn : extras.constant_order) is_weight[fqn] = false;
  for (const GraphInput& input : graph.inputs())
    if (!input.fqn.empty())
      is_weight[input.fqn] = input.kind == InputKind::kParameter ||
                             (input.kind == InputKind::kBuffer && input.persistent);
  PayloadOrder order;
  std::set<std::string> seen;
  const auto add = [&](const std::string& fqn) {
    if (!graph.constants.contains(fqn) || !seen.insert(fqn).second) return;
    const auto found = is_weight.find(fqn);
    (found == is_weight.end() || found->second ? order.weights : order.constants).push_back(fqn);
  };
  for (const std::string& fqn : extras.weight_order) add(fqn);
  for (const std::string& fqn : extras.constant_order) add(fqn);
  for (const GraphInput& input : graph.inputs()) add(input.fqn);
  for (const auto& [fqn, constant] : graph.constants) add(fqn);
  return order;
}

TensorMeta meta_of(const Constant& constant) {
  TensorMeta meta = make_meta(constant.tensor.dtype(), constant.tensor.shape());
  for (size_t i = 0; i < meta.strides.size(); ++i)
    meta.strides[i] = {constant.tensor.strides()[i], ""};
  meta.storage_offset = {constant.tensor.offset(), ""};
  meta.requires_grad = constant.requires_grad;
  return meta;
}

// Writes one record per distinct storage and dtype (the loader makes one flat tensor of a record),
// named prefix0, prefix1, ...; returns the table.
nlohmann::ordered_json write_tensors(const Graph& graph, const std::vector<std::string>& fqns,
                                     const std::string& prefix, ArchiveWriter& archive,
                                     const std::string& subject) {
  std::map<std::pair<const Storage*, DType>, std::string> records;
  nlohmann::ordered_json config = nlohmann::ordered_json::object();
  for (const std::string& fqn : fqns) {
    const Constant& constant = graph.constants.at(fqn);
    if (!constant.tensor.defined())
      throw Error("pt2", subject, fmt::format("tensor \"{}\" has no data", fqn));
    const Storage& storage = *constant.tensor.storage();
    const size_t element = size_of(constant.tensor.dtype());
    std::string& record = records[{&storage, constant.tensor.dtype()}];
    if (record.empty()) {
      record = fmt::format("{}{}", prefix.substr(prefix.rfind('/') + 1), records.size() - 1);
      archive.write(
          fmt::format("{}{}", prefix, records.size() - 1),
          {reinterpret_cast<const char*>(storage.data), storage.size / element * element});
    }
    schema::PayloadMeta payload;
    payload.set_path_name(record);
    payload.set_is_param(constant.is_parameter);
    payload.set_use_pickle(false);
    payload.set_tensor_meta(std::optional(encode_meta(meta_of(constant))));
    config[fqn] = nlohmann::ordered_json(json(payload));
  }
  return config;
}

void write_payloads(const Graph& graph, const ArchiveExtras& extras, ArchiveWriter& archive,
                    const std::string& subject) {
  const PayloadOrder order = order_payloads(graph, extras);
  nlohmann::ordered_json table;
  table["config"] = write_tensors(graph, order.weights, "data/weights/weight_", archive, subject);
  archive.write(fmt::format("data/weights/{}_weights_config.json", extras.model_name),
                dump_json(table));
  table["config"] =
      write_tensors(graph, order.constants, "data/constants/tensor_", archive, subject);
  for (const auto& [fqn, object] : extras.objects) {
    const json meta = parse_json<json>(object.first);
    const std::string record = "data/constants/" + meta.at("path_name").get<std::string>();
    if (!archive.has(record)) archive.write(record, object.second);
    table["config"][fqn] = nlohmann::ordered_json(meta);
  }
  archive.write(fmt::format("data/constants/{}_constants_config.json", extras.model_name),
                dump_json(table));
}

}  // namespace

void write_pt2(const Graph& graph, const std::filesystem::path& path) {
  const ArchiveExtras none;
  const ArchiveExtras& extras = graph.extras == nullptr ? none : *graph.extras;
  const std::string subject = path.filename().string();
  const std::string program = dump_json(encode_program(graph, extras, subject), -1, true);
  ArchiveWriter archive(path, "pt2");
  write_payloads(graph, extras, archive, subject);
  archive.write(fmt::format("models/{}.json", extras.model_name), program);
  for (const auto& [name, bytes] : extras.records) archive.write(name, bytes);
  const std::string samples = fmt::format("data/sample_inputs/{}.pt", extras.model_name);
  if (!archive.has(samples)) archive.write(samples, "");  // torch takes none for "no example"
  if (!archive.has("archive_format")) archive.write("archive_format", "pt2");
  if (!archive.has("archive_version")) archive.write("archive_version", "0");
  archive.commit();
}

}  // namespace octet
