#include "core/ops/memory.h"

#include <algorithm>

#include "core/ops/op_lookup.h"
#include "core/ops/op_schema.h"

namespace octet {
namespace {

bool has_data(const GraphInput& input) {
  return input.kind == InputKind::kParameter || input.kind == InputKind::kBuffer ||
         input.kind == InputKind::kTensorConstant;
}

// Ops that may return their input or a view of it, which their schemas do not declare.
constexpr const char* kUnsaidViews[] = {
    "aten.dropout",       "aten.feature_dropout",
    "aten.alpha_dropout", "aten.feature_alpha_dropout",
    "aten.type_as",       "aten.conj_physical",
    "aten.atleast_1d",    "aten.atleast_2d",
    "aten.atleast_3d",    "aten.unsafe_split",
    "aten.unsafe_chunk",  "aten.unsafe_split_with_sizes",
    "aten.meshgrid",      "aten.broadcast_tensors",
};

// aten.to and aten.type_as between dtypes; the schema of the first one declares a view.
bool is_cast(const Node& node) {
  const Value *input = node.find_input("self"), *output = node.output_or_null();
  return (node.is("aten.to") || node.is("aten.type_as")) && input != nullptr && output != nullptr &&
         input->meta && output->meta && input->meta->dtype != output->meta->dtype;
}

// Ops that write to their running statistics when this flag is on, which their schemas do not
// declare.
struct StatisticsRow {
  const char* op;
  const char* flag;
};
constexpr StatisticsRow kStatistics[] = {
    {"aten.batch_norm", "training"},
    {"aten.native_batch_norm", "training"},
    {"aten.instance_norm", "use_input_stats"},
};

std::vector<const Value*> written_statistics(const Node& node) {
  std::vector<const Value*> written;
  for (const StatisticsRow& row : kStatistics) {
    if (!node.is(row.op) || !node.bool_or(row.flag, true)) continue;
    for (const char* name : {"running_mean", "running_var"})
      if (const Value* value = node.find_input(name)) written.push_back(value);
  }
  return written;
}

}  // namespace

bool is_in_place(const Node& node) {
  const std::string base = node.target().substr(0, node.target().rfind('.'));
  return base.starts_with("aten.") && base.ends_with('_') && !base.ends_with("__") &&
         !node.inputs().empty();
}

std::vector<const Value*> aliased_inputs(const Node& node) {
  if (is_cast(node)) return {};
  const std::optional<c10::OperatorHandle> op = find_operator(node.target());
  const bool is_unsaid =
      std::ranges::any_of(kUnsaidViews, [&](const char* view) { return node.is(view); });
  if (!op || is_unsaid) {
    const std::vector<Value*> inputs = node.inputs();
    return {inputs.begin(), inputs.end()};
  }
  std::vector<const Value*> result;
  for (const c10::Argument& argument : op->schema().arguments()) {
    const Argument* given =
        argument.alias_info() == nullptr ? nullptr : node.find_argument(argument.name());
    if (given != nullptr) for_each_value(*given, [&](Value* value) { result.push_back(value); });
  }
  return result;
}

std::unordered_set<const Value*> memory_roots(std::vector<const Value*> open) {
  std::unordered_set<const Value*> roots;
  std::unordered_set<const Value*> seen;
  while (!open.empty()) {
    const Value* next = open.back();
    open.pop_back();
    if (!seen.insert(next).second) continue;
    const std::vector<const Value*> sources = next->producer() == nullptr
                                                  ? std::vector<const Value*>()
                                                  : aliased_inputs(*next->producer());
    if (sources.empty()) roots.insert(next);
    open.insert(open.end(), sources.begin(), sources.end());
  }
  return roots;
}

std::vector<const Value*> written_values(const Node& node) {
  const OpSchema* schema = find_op_schema(node.target());
  if (schema == nullptr || node.target() == "aten.detach_.default") return {};
  if (!schema->is_mutable()) return written_statistics(node);
  std::vector<const Value*> written;
  for (const SchemaArgument& argument : schema->arguments) {
    const Argument* given = argument.is_write ? node.find_argument(argument.name) : nullptr;
    if (given != nullptr) for_each_value(*given, [&](Value* value) { written.push_back(value); });
  }
  return written;
}

std::unordered_set<const Value*> written_constants(const Graph& graph) {
  std::vector<const Value*> written;
  for (const Node* node : graph.nodes())
    for (const Value* value : written_values(*node)) written.push_back(value);
  const std::unordered_set<const Value*> roots = memory_roots(std::move(written));
  std::unordered_set<std::string> targets;
  for (const GraphOutput& output : graph.outputs())
    if (output.kind == OutputKind::kBufferMutation || output.kind == OutputKind::kParameterMutation)
      targets.insert(output.target);
  std::unordered_set<const Value*> constants;
  for (const GraphInput& input : graph.inputs())
    if (has_data(input) && (roots.contains(input.value) || targets.contains(input.fqn)))
      constants.insert(input.value);
  return constants;
}

}  // namespace octet
