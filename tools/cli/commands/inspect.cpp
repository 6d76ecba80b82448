// Implements octet inspect, which prints the contents of a .pt2 or .octet file.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "backends/registry.h"
#include "core/base/error.h"
#include "core/base/json_text.h"
#include "core/passes/verify.h"
#include "core/pt2/reader.h"
#include "lowering/program/artifact.h"
#include "lowering/program/control.h"
#include "lowering/program/symbols.h"
#include "tools/cli/commands/command.h"
#include "tools/cli/commands/inspect_graph.h"
#include "tools/cli/commands/runnable.h"
#include "tools/cli/common/library.h"
#include "tools/cli/common/messages.h"

namespace octet {
namespace {

// Converts to ASCII for terminals; names need not be valid UTF-8.
std::string json_text(const nlohmann::ordered_json& json) {
  return dump_json(json, 1, true, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

nlohmann::ordered_json tensor_json(const Program& program, int index) {
  if (index < 0) return nullptr;
  const ProgramTensor& tensor = program.tensor(index);
  nlohmann::ordered_json json = {
      {"name", tensor.name}, {"dtype", name_of(tensor.dtype)}, {"shape", tensor.shape}};
  if (tensor.sizes.empty()) return json;
  json["sizes"] = nlohmann::ordered_json::array();
  for (const SizeExpr& size : tensor.sizes) {
    if (size.is_number()) {
      json["sizes"].push_back(size.number());
    } else {
      json["sizes"].push_back(size.to_text());
    }
  }
  return json;
}

nlohmann::ordered_json symbols_json(const Program& program) {
  nlohmann::ordered_json symbols = nlohmann::ordered_json::array();
  for (const ShapeSymbol& symbol : program.symbols)
    symbols.push_back(
        {{"name", symbol.name}, {"min", symbol.min}, {"max", symbol.max}, {"hint", symbol.hint}});
  return symbols;
}

// The inputs or outputs as callers see them: open sizes with their ranges, integer tensors with
// their qparams.
nlohmann::ordered_json border_json(const Program& program, const std::vector<int>& indices) {
  nlohmann::ordered_json result = nlohmann::ordered_json::array();
  for (int index : indices) {
    result.push_back(tensor_json(program, index));
    const ProgramTensor* tensor = index < 0 ? nullptr : &program.tensor(index);
    if (tensor != nullptr) {
      const ShapeRange range = shape_range(program, *tensor);
      if (range.min != range.max) {
        result.back()["min_shape"] = range.min;
        result.back()["max_shape"] = range.max;
      }
    }
    if (tensor == nullptr || !tensor->qparams || !tensor->qparams->is_per_tensor()) continue;
    result.back()["scale"] = tensor->qparams->scale.front();
    result.back()["zero_point"] = tensor->qparams->zero_point.front();
  }
  return result;
}

// `next` names the tensor with the state's next value, `start` the constant with its first value;
// null: zeros.
nlohmann::ordered_json states_json(const Program& program) {
  nlohmann::ordered_json states = nlohmann::ordered_json::array();
  for (const ProgramState& state : program.states) {
    states.push_back({{"name", state.name},
                      {"value", tensor_json(program, state.value)},
                      {"next", program.tensor(state.next).name},
                      {"start", nullptr}});
    if (state.start >= 0) states.back()["start"] = program.tensor(state.start).name;
  }
  return states;
}

nlohmann::ordered_json program_json(const Program& program) {
  nlohmann::ordered_json ops = nlohmann::ordered_json::array();
  for (const Segment& segment : program.segments) {
    for (int index : segment.ops) {
      const ProgramOp& op = program.op(index);
      nlohmann::ordered_json inputs = nlohmann::ordered_json::array(),
                             outputs = nlohmann::ordered_json::array();
      for (int input : op.inputs) inputs.push_back(tensor_json(program, input));
      for (int output : op.outputs) outputs.push_back(tensor_json(program, output));
      ops.push_back({{"name", op.name},
                     {"kind", op.kind},
                     {"backend", segment.backend},
                     {"inputs", inputs},
                     {"outputs", outputs},
                     {"macs", op.macs}});
      if (is_control(op)) ops.back()["bodies"] = bodies_of(op);
      const auto reason = program.reasons.find(op.name);
      if (reason != program.reasons.end()) ops.back()["reason"] = reason->second;
    }
  }
  const nlohmann::ordered_json inputs = border_json(program, program.inputs),
                               outputs = border_json(program, program.outputs);
  nlohmann::ordered_json bodies = nlohmann::ordered_json::array();
  for (const Program& body : program.bodies) bodies.push_back(program_json(body));
  return {{"backend", program.backend},
          {"versions", program.versions},
          {"symbols", symbols_json(program)},
          {"states", states_json(program)},
          {"inputs", inputs},
          {"outputs", outputs},
          {"ops", ops},
          {"bodies", bodies}};
}

struct InspectRequest {
  std::string file;
  bool json = false, ops = false;
  std::vector<std::string> libraries;
};

Options options_of(InspectRequest& request) {
  return joined({
      {Option{"file", &request.file, "The program, .pt2 or .octet"}.positional(),
       Option{"json", &request.json, "Print JSON"},
       Option{"ops", &request.ops,
              "Print what each op of an .octet program does, its inputs and attributes; "
              "needs no program"}},
      library_options(request.libraries),
  });
}

void inspect(InspectRequest& request) {
  load_libraries(request.libraries);
  if (request.ops) return print_text(ops_page());
  if (request.file.empty()) throw CLI::RequiredError("file");
  if (has_suffix(request.file, ".octet")) {
    const Program program = load_program(request.file);
    if (request.json)
      print_json(json_text(program_json(program)));
    else
      print_text(to_text(program));
    return;
  }
  if (!has_suffix(request.file, ".pt2"))
    throw Error("inspect", request.file,
                "is neither .pt2 nor .octet; give a program that torch.export.save or `octet "
                "lower` wrote");
  const Graph graph = read_pt2(request.file);
  verify(graph);
  if (request.json)
    print_json(json_text(to_json(graph)));
  else
    print_text(to_table(graph));
}

}  // namespace

void add_inspect_command(CLI::App& app) {
  add_command<InspectRequest>(app, "inspect",
                              "Print the ops of a .pt2 (FX's tabular form) or of an .octet program",
                              inspect);
}

}  // namespace octet
