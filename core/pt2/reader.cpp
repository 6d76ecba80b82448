#include "core/pt2/reader.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/json_text.h"
#include "core/base/tensor.h"
#include "core/pt2/archive.h"
#include "core/pt2/schema.h"

namespace octet {
namespace {

using nlohmann::json;

constexpr int kSchemaMajor = 8, kSchemaMinor = 20;
constexpr int kMaxNesting = 400;  // of the JSON; a subgraph takes 7 levels
constexpr std::string_view kWeightsFolder = "data/weights/";
constexpr std::string_view kConstantsFolder = "data/constants/";

// Parses text with bounded nesting, as the conversions that follow are recursive.
json parse_record(const std::string& text, const std::string& record, const std::string& source) {
  int depth = 0;
  bool is_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (is_string) {
      if (c == '\\') ++i;
      is_string = c != '"';
    } else if (c == '"') {
      is_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kMaxNesting)
        throw Error("pt2", source,
                    fmt::format("{} nests more than {} levels deep; the file is damaged", record,
                                kMaxNesting));
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  try {
    return parse_json<json>(text);
  } catch (const json::exception& error) {
    throw Error("pt2", source, fmt::format("{} is not JSON: {}", record, one_line(error.what())));
  }
}

// Converts to a schema type; exceptions of the schema's code become Errors.
template <typename T>
T to_schema(const json& from, const std::string& record, const std::string& source) {
  try {
    return from.get<T>();
  } catch (const std::exception& error) {
    throw Error("pt2", source,
                fmt::format("{} does not follow the schema: {}", record, one_line(error.what())));
  }
}

// Runs a decoder. The schema's getters throw bad_variant_access for unknown alternatives in the
// JSON.
template <typename Function>
auto decoded(const std::string& record, const std::string& source, const Function& decode) {
  try {
    return decode();
  } catch (const std::bad_variant_access&) {
    throw Error("pt2", source,
                record + " does not follow the schema: an alternative is missing or unknown");
  }
}

// "model" for models/model.json.
std::string find_model_name(const ArchiveReader& archive, const std::string& source) {
  std::vector<std::string> names;
  for (const std::string& name : archive.names())
    if (name.starts_with("models/") && name.ends_with(".json"))
      names.push_back(name.substr(7, name.size() - 12));
  if (names.empty())
    throw Error("pt2", source,
                "there is no models/model.json in the archive, want a program that "
                "torch.export.save wrote");
  if (names.size() > 1)
    throw Error("pt2", source,
                fmt::format("holds {} programs, want 1; save them one by one", names.size()));
  return names.front();
}

// ---- tensors

Tensor make_tensor(ArchiveReader& archive, const std::string& record, const TensorMeta& meta,
                   const std::string& where, const Graph& graph) {
  if (meta.layout != Layout::kStrided)
    throw Error("pt2", graph.source,
                where + ": is sparse, want a dense tensor; call to_dense() before the export");
  if (meta.device.type != "cpu")
    throw Error("pt2", graph.source,
                fmt::format("{}: is on {}, want cpu; export on the CPU", where, meta.device.type));
  std::vector<int64_t> strides;
  int64_t count = 1;
  bool is_static = meta.is_static() && !meta.storage_offset.is_symbolic();
  for (const Dim& stride : meta.strides) {
    is_static = is_static && !stride.is_symbolic();
    strides.push_back(stride.value);
  }
  for (const Dim& size : meta.sizes)
    if (size.value != 0 && __builtin_mul_overflow(count, size.value, &count)) is_static = false;
  if (!is_static)
    throw Error("pt2", graph.source,
                where + ": its sizes are symbolic or overflow, want numbers; the file is damaged");
  try {
    return with_true_bools(Tensor(archive.map(record), meta.dtype, meta.shape(), std::move(strides),
                                  meta.storage_offset.value));
  } catch (const Error& error) {
    if (error.stage() != "tensor") throw;
    throw Error("pt2", graph.source, fmt::format("{}: {}", where, error.without_stage()));
  }
}

struct Payloads {
  std::string_view folder;
  std::string config;  // record
  std::vector<std::string>* order;
};

void read_payloads(ArchiveReader& archive, const Payloads& payloads, Graph& graph) {
  if (!archive.has(payloads.config) &&
      archive.has(fmt::format("{}{}.pt", payloads.folder, graph.extras->model_name)))
    throw Error("pt2", graph.source,
                "is a program of torch 2.8, want one of torch 2.9 to 2.15; export the model again");
  const std::string text = archive.read(payloads.config);
  // Keys in the order of the file, which torch uses for the state dict.
  parse_record(text, payloads.config, graph.source);
  const nlohmann::ordered_json ordered = parse_json<nlohmann::ordered_json>(text);
  if (!ordered.is_object() || !ordered.contains("config") || !ordered["config"].is_object())
    throw Error("pt2", graph.source,
                payloads.config + " does not follow the schema: there is no object \"config\"");
  for (const auto& [fqn, entry] : ordered["config"].items()) {
    const std::string where = fmt::format("tensor \"{}\"", fqn);
    const json plain(entry);
    const schema::PayloadMeta meta =
        to_schema<schema::PayloadMeta>(plain, payloads.config, graph.source);
    const std::string record = std::string(payloads.folder) + meta.get_path_name();
    payloads.order->push_back(fqn);
    if (!meta.get_tensor_meta() && meta.get_use_pickle()) {
      graph.extras->objects[fqn] = {dump_json(plain), archive.read(record)};
      continue;
    }
    if (meta.get_use_pickle())
      throw Error("pt2", graph.source,
                  where +
                      ": is pickled (a tensor subclass), want a plain tensor; convert it before "
                      "the export");
    if (!meta.get_tensor_meta())
      throw Error("pt2", graph.source, where + ": has no tensor_meta; the file is damaged");
    if (graph.constants.contains(fqn))
      throw Error("pt2", graph.source,
                  where + ": occurs twice among weights and constants; the file is damaged");
    const TensorMeta facts = decoded(payloads.config, graph.source, [&] {
      return decode_meta(*meta.get_tensor_meta(), graph, where);
    });
    graph.constants[fqn] = {make_tensor(archive, record, facts, where, graph), meta.get_is_param(),
                            facts.requires_grad};
  }
}

// ---- signature

InputRole decode_role(const schema::InputSpec& from, size_t index) {
  using Tag = schema::InputSpec::Tag;
  GraphInput input;
  std::string name = fmt::format("literal_{}", index);
  switch (from.tag()) {
    case Tag::USER_INPUT: from.get_user_input(); break;
    case Tag::PARAMETER:
      input.kind = InputKind::kParameter;
      input.fqn = from.get_parameter().get_parameter_name();
      break;
    case Tag::BUFFER:
      input.kind = InputKind::kBuffer;
      input.fqn = from.get_buffer().get_buffer_name();
      input.persistent = from.get_buffer().get_persistent();
      break;
    case Tag::TENSOR_CONSTANT:
      input.kind = InputKind::kTensorConstant;
      input.fqn = from.get_tensor_constant().get_tensor_constant_name();
      break;
    case Tag::CUSTOM_OBJ:
      input.kind = InputKind::kCustomObj;
      input.fqn = from.get_custom_obj().get_custom_obj_name();
      break;
    case Tag::TOKEN: input.kind = InputKind::kToken; break;
    case Tag::CONSTANT_INPUT:
      input.kind = InputKind::kConstant;
      name = from.get_constant_input().get_name();
      break;
  }
  return {std::move(input), std::move(name)};
}

GraphOutput decode_output(const schema::OutputSpec& from) {
  using Tag = schema::OutputSpec::Tag;
  switch (from.tag()) {
    case Tag::USER_OUTPUT: from.get_user_output(); return {{}, OutputKind::kUserOutput, ""};
    case Tag::LOSS_OUTPUT: return {{}, OutputKind::kLoss, ""};
    case Tag::BUFFER_MUTATION:
      return {{}, OutputKind::kBufferMutation, from.get_buffer_mutation().get_buffer_name()};
    case Tag::PARAMETER_MUTATION:
      return {
          {}, OutputKind::kParameterMutation, from.get_parameter_mutation().get_parameter_name()};
    case Tag::USER_INPUT_MUTATION:
      return {
          {}, OutputKind::kUserInputMutation, from.get_user_input_mutation().get_user_input_name()};
    case Tag::GRADIENT_TO_PARAMETER:
      return {{},
              OutputKind::kGradientToParameter,
              from.get_gradient_to_parameter().get_parameter_name()};
    case Tag::GRADIENT_TO_USER_INPUT:
      return {{},
              OutputKind::kGradientToUserInput,
              from.get_gradient_to_user_input().get_user_input_name()};
    case Tag::TOKEN: return {{}, OutputKind::kToken, ""};
  }
  throw std::bad_variant_access();
}

void decode_outputs(const schema::GraphModule& from, Graph& graph) {
  const std::vector<schema::OutputSpec>& specs = from.get_signature().get_output_specs();
  const std::vector<schema::Argument>& values = from.get_graph().get_outputs();
  if (specs.size() != values.size())
    throw Error("pt2", graph.source,
                fmt::format("the signature has {} outputs and the graph {}, want equal numbers; "
                            "the file is damaged",
                            specs.size(), values.size()));
  for (size_t i = 0; i < specs.size(); ++i) {
    GraphOutput output = decode_output(specs[i]);
    output.value = decode_argument(values[i], graph, fmt::format("output {}", i));
    graph.add_output(std::move(output));
  }
}

// Each parameter, buffer and constant of the signature must have its tensor.
void check_constants(const Graph& graph) {
  for (const GraphInput& input : graph.inputs()) {
    const bool wants_tensor = input.kind == InputKind::kParameter ||
                              input.kind == InputKind::kBuffer ||
                              input.kind == InputKind::kTensorConstant;
    if (wants_tensor && !graph.constants.contains(input.fqn))
      throw Error("pt2", graph.source,
                  fmt::format("%{}: there is no tensor \"{}\" in the archive; the file is damaged",
                              input.value->name(), input.fqn));
  }
}

void decode_program(const schema::ExportedProgram& program, Graph& graph) {
  const schema::GraphModule& module = program.get_graph_module();
  graph.is_single_tensor_return = module.get_graph().get_is_single_tensor_return();
  for (const auto& [symbol, range] : program.get_range_constraints())
    graph.range_constraints[symbol] = {range.get_min_val(), range.get_max_val()};
  std::vector<InputRole> roles;
  for (const schema::InputSpec& spec : module.get_signature().get_input_specs())
    roles.push_back(decode_role(spec, roles.size()));
  decode_inputs(module.get_graph(), std::move(roles), graph);
  decode_nodes(module.get_graph(), graph);
  decode_outputs(module, graph);
}

// For messages; "" unless the file's minor version is newer. Such files are read: the schema's code
// skips the fields that it does not know.
std::string newer_minor(const json& program) {
  const json minor = program["schema_version"].value("minor", json());
  if (!minor.is_number_integer() || minor <= kSchemaMinor) return "";
  return fmt::format(" (schema {}.{}, want at most {}.{}; export with torch 2.13 to 2.15)",
                     kSchemaMajor, dump_json(minor), kSchemaMajor, kSchemaMinor);
}

// Reads the program's JSON and keeps the rest of it for the writer.
void read_program(const ArchiveReader& archive, Graph& graph) {
  const std::string record = "models/" + graph.extras->model_name + ".json";
  json text = parse_record(archive.read(record), record, graph.source);
  const json::json_pointer major("/schema_version/major");
  if (!text.is_object() || !text.contains(major) || !text[major].is_number_integer())
    throw Error("pt2", graph.source,
                record + " has no schema version, want that of torch.export.save");
  if (text[major] != kSchemaMajor)
    throw Error("pt2", graph.source,
                fmt::format("schema version, got {}, want {}; export with torch 2.13 to 2.15",
                            dump_json(text[major]), kSchemaMajor));
  const json::json_pointer body("/graph_module/graph");
  if (!text.contains(body) || !text[body].is_object())
    throw Error("pt2", graph.source, record + " does not follow the schema: there is no graph");
  const std::string part = record + newer_minor(text);
  decoded(part, graph.source, [&] {
    decode_program(to_schema<schema::ExportedProgram>(text, part, graph.source), graph);
  });
  graph.extras->custom_obj_values_json =
      dump_json(text[body].value("custom_obj_values", json::object()));
  text["graph_module"]["graph"] = json::object();
  text["graph_module"]["signature"] = json::object();
  graph.extras->program_json = dump_json(text);
}

// Whether the writer creates the record; all others are kept as bytes.
bool is_made_anew(const std::string& name) {
  return name.starts_with("models/") || name.starts_with(kWeightsFolder) ||
         name.starts_with(kConstantsFolder) || name.starts_with(".data/") || name == "byteorder";
}

}  // namespace

Graph read_pt2(const std::filesystem::path& path) {
  Graph graph;
  graph.source = path.filename().string();
  ArchiveReader archive(path, "pt2");
  graph.extras = std::make_shared<ArchiveExtras>();
  ArchiveExtras& extras = *graph.extras;
  extras.model_name = find_model_name(archive, graph.source);
  read_payloads(
      archive,
      {kWeightsFolder, fmt::format("{}{}_weights_config.json", kWeightsFolder, extras.model_name),
       &extras.weight_order},
      graph);
  read_payloads(archive,
                {kConstantsFolder,
                 fmt::format("{}{}_constants_config.json", kConstantsFolder, extras.model_name),
                 &extras.constant_order},
                graph);
  read_program(archive, graph);
  check_constants(graph);
  for (const std::string& name : archive.names())
    if (!is_made_anew(name)) extras.records.emplace_back(name, archive.read(name));
  return graph;
}

}  // namespace octet
