// Imports the nodes of a graph one by one, by the tables of rows.h.
#include "lowering/import/graph.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/ops/memory.h"
#include "lowering/import/call_spec.h"
#include "lowering/import/importer.h"
#include "lowering/import/rows.h"
#include "lowering/import/steps.h"
#include "lowering/program/control.h"
#include "lowering/program/custom_kernel.h"

namespace octet {
namespace {

struct OpName {
  std::string base;          // "aten.relu"
  bool is_in_place = false;  // true for aten.relu_.default
};

OpName split_target(const std::string& target) {
  if (target.starts_with("higher_order.")) return {target};
  OpName name{target.substr(0, target.rfind('.')), false};
  if (name.base.starts_with("aten.") && name.base.ends_with('_') && !name.base.ends_with("__")) {
    name.base.pop_back();
    name.is_in_place = true;
  }
  return name;
}

const ImportRow* find_row(std::span<const ImportRow> rows, const std::string& op) {
  for (const ImportRow& row : rows)
    if (op == row.op) return &row;
  return nullptr;
}

const ImportRow* find_import_row(const std::string& op) {
  for (const auto& rows :
       {compute_import_rows(),      arithmetic_import_rows(), shape_import_rows(),
        quantization_import_rows(), statistics_import_rows(), recurrent_import_rows(),
        attention_import_rows(),    function_import_rows(),   indexing_import_rows(),
        rearrange_import_rows(),    window_import_rows(),     composed_import_rows(),
        product_import_rows(),      upsample_import_rows(),   filled_import_rows(),
        control_import_rows(),      order_import_rows(),      place_import_rows(),
        count_import_rows(),        unique_import_rows()})
    if (const ImportRow* row = find_row(rows, op)) return row;
  return nullptr;
}

// Whether the node computes only with sizes. It needs no op: shapes that use its results have them
// as formulas.
bool gives_symbols(const Node& node) {
  const std::vector<Value*> values = node.outputs();
  return !values.empty() && std::all_of(values.begin(), values.end(), [](const Value* value) {
    return is_number(value->kind());
  });
}

bool touches_complex(const Node& node) {
  const auto is_complex_tensor = [](const Value* value) {
    return value->kind() == ValueKind::kTensor && value->meta && is_complex(value->meta->dtype);
  };
  const std::vector<Value*> inputs = node.inputs(), outputs = node.outputs();
  return std::any_of(inputs.begin(), inputs.end(), is_complex_tensor) ||
         std::any_of(outputs.begin(), outputs.end(), is_complex_tensor);
}

bool has_unknown_complex(const Node* node) {
  return touches_complex(*node) &&
         find_row(complex_import_rows(), split_target(node->target()).base) == nullptr;
}

// The value that an output of the graph writes to the buffer; null if none does.
Value* find_mutation(const Graph& graph, const std::string& fqn) {
  for (const GraphOutput& output : graph.outputs())
    if ((output.kind == OutputKind::kBufferMutation ||
         output.kind == OutputKind::kParameterMutation) &&
        output.target == fqn)
      return output.value.value_or_null();
  return nullptr;
}

}  // namespace

Importer::Importer(const Graph& graph, bool keep_unknown, size_t depth,
                   std::vector<ShapeSymbol> known)
    : graph_(graph),
      keep_unknown_(keep_unknown),
      depth_(depth),
      sizes_(graph, std::move(known)),
      builder_(graph, sizes_),
      writes_(*this) {}

Program Importer::import_body(const Node& node, const Graph& body) {
  const std::string subject = fmt::format("{} ({})", node.name(), node.target());
  if (depth_ == kDeepestBodies)
    throw Error("lower", subject, fmt::format("has bodies nested deeper than {}", kDeepestBodies));
  Program program = Importer(body, keep_unknown_, depth_ + 1, sizes_.symbols()).run();
  if (!program.states.empty())
    throw Error("lower", subject,
                fmt::format("has a body that writes into {}; write outside of it",
                            program.states.front().name));
  return program;
}

// ---- inputs, states and outputs

void Importer::import_inputs() {
  Program& program = builder_.program;
  for (const GraphInput& input : graph_.inputs()) {
    if (input.kind == InputKind::kConstant) program.inputs.push_back(-1);
    if (input.kind != InputKind::kUserInput) continue;
    Value* value = input.value;
    // keep an unused input if its shape decides sizes
    const bool has_symbols = value->meta && !value->meta->is_static();
    if (value->kind() != ValueKind::kTensor || (value->is_unused() && !has_symbols)) {
      program.inputs.push_back(-1);
      continue;
    }
    if (!value->meta)
      throw Error("lower", "%" + value->name(),
                  "has no recorded shape; export the program with torch.export");
    Sizes sizes;
    for (const Dim& dim : value->meta->sizes) sizes.push_back(sizes_.formula_of(dim, *value));
    ProgramTensor tensor{value->name(),
                         value->meta->dtype,
                         value->meta->shape(),
                         {},
                         ProgramTensor::Role::kInput,
                         {}};
    if (is_symbolic(sizes)) tensor.shape = sizes_.body_example(sizes, tensor.shape);
    if (is_symbolic(sizes)) tensor.sizes = std::move(sizes);
    program.inputs.push_back(builder_.add_tensor(std::move(tensor)));
    builder_.alias(value, program.inputs.back());
  }
  sizes_.declare(program);
  if (depth_ > 0) import_number_inputs();
}

void Importer::import_number_inputs() {
  size_t position = 0;
  for (const GraphInput& input : graph_.inputs()) {
    if (input.kind != InputKind::kConstant && input.kind != InputKind::kUserInput) continue;
    int& place = builder_.program.inputs[position++];
    Value* value = input.value;
    if (input.kind == InputKind::kConstant || !is_number(value->kind()) || value->is_unused() ||
        sizes_.has_formula(*value))
      continue;
    place = builder_.add_tensor(
        {value->name(), dtype_of_number(value->kind()), {}, {}, ProgramTensor::Role::kInput, {}});
    builder_.set_number(value, place);
  }
}

void Importer::import_states() {
  const std::unordered_set<const Value*> written = written_constants(graph_);
  for (const GraphInput& input : graph_.inputs()) {
    if (!written.contains(input.value)) continue;
    const Tensor* start = graph_.find_constant(input.value);
    if (start == nullptr || !start->defined())
      throw Error("lower", input.fqn, "is written by the program, but has no value to start with");
    const int value = builder_.add_tensor(
        {input.value->name(), start->dtype(), start->shape(), {}, ProgramTensor::Role::kState, {}});
    builder_.alias(input.value, value);
    builder_.program.states.push_back({.name = input.fqn, .value = value});
    state_inputs_.push_back(input.value);
  }
}

bool Importer::is_state(const Value* value) const {
  return std::find(state_inputs_.begin(), state_inputs_.end(), value) != state_inputs_.end();
}

void Importer::import_next_states() {
  Program& program = builder_.program;
  std::vector<ProgramState> states = std::move(program.states);
  program.states.clear();
  for (size_t i = 0; i < states.size(); ++i) {
    ProgramState& state = states[i];
    Value* given = find_mutation(graph_, state.name);
    state.next = builder_.tensor_of(given == nullptr ? state_inputs_[i] : given);
    const Tensor start = graph_.find_constant(state_inputs_[i])->contiguous();
    if (state.next == state.value) {  // the graph writes something else
      program.tensor(state.value).role = ProgramTensor::Role::kConstant;
      program.tensor(state.value).data = start;
      continue;
    }
    ProgramTensor &before = program.tensor(state.value), &after = program.tensor(state.next);
    if (after.dtype != before.dtype || after.shape != before.shape || !after.sizes.empty())
      throw Error("lower", state.name,
                  fmt::format("becomes %{}, which has another dtype or an open size, want that of "
                              "the buffer; export with fixed sizes",
                              after.name));
    // The value before and after a run has the same qparams.
    if (!before.qparams) before.qparams = after.qparams;
    if (!after.qparams) after.qparams = before.qparams;
    if (!has_only_zero_bits(start))
      state.start = builder_.add_constant(before.name + "_start", start);
    program.states.push_back(state);
  }
}

void Importer::import_outputs() {
  for (const GraphOutput& output : graph_.outputs()) {
    if (output.kind == OutputKind::kToken || output.kind == OutputKind::kBufferMutation ||
        output.kind == OutputKind::kParameterMutation)
      continue;
    if (output.kind != OutputKind::kUserOutput)
      throw Error("lower", output.target,
                  "is an input that the program changes, which a lowered program cannot do; export "
                  "without it, or keep the value in a buffer");
    bool has_value = false;
    for_each_value(output.value, [&](Value* value) {
      builder_.program.outputs.push_back(depth_ > 0 && is_number(value->kind())
                                             ? number_result(*this, value)
                                             : builder_.tensor_of(value));
      has_value = true;
    });
    if (!has_value && (depth_ > 0 || !is_literal(output.value)))
      throw Error("lower", "outputs",
                  "an output is neither a tensor nor None, a number or a string; return tensors");
  }
  if (depth_ == 0 && !graph_.outputs().empty() && builder_.program.outputs.empty() &&
      builder_.program.states.empty())
    throw Error("lower", "outputs", "no output is a tensor; return at least one");
  for (int index : builder_.program.outputs) {
    ProgramTensor& tensor = builder_.program.tensor(index);
    if (tensor.role == ProgramTensor::Role::kIntermediate)
      tensor.role = ProgramTensor::Role::kOutput;
  }
}

// ---- nodes

bool Importer::refuse_open_ends(const Node& node) {
  const bool touches = sizes_.touches_given_up(node);
  if (!sizes_.has_new_size(node) || (!touches && counts_when_run(node))) return touches;
  return refuse_new_sizes(node);
}

bool Importer::refuse_new_sizes(const Node& node) {
  std::set<std::string> told;
  for (const Value* value : node.outputs())
    if (const std::string name = sizes_.find_new_symbol(*value);
        !name.empty() && told.insert(name).second)
      refusals_.add_refusal(node, sizes_.refusal_of(name), RefusalKind::kSize);
  sizes_.give_up(node);
  return !told.empty();
}

void Importer::import_node(const Node& node) {
  if (gives_symbols(node)) return import_item(*this, node);
  const OpName name = split_target(node.target());
  const bool is_complex_op = touches_complex(node);
  // an inverse transform of half a spectrum without imaginary part maps reals to reals
  const ImportRow* row = is_complex_op || name.base.starts_with("aten.fft_")
                             ? find_row(complex_import_rows(), name.base)
                             : find_import_row(name.base);
  const size_t refused = refusals_.count();
  const ProgramBuilder::Mark mark = builder_.mark();
  Steps steps(*this, node, row == nullptr ? "" : row->word);
  if (refuse_open_ends(node)) {
    const bool is_unknown = row == nullptr && find_custom_kernel(node.target()) == nullptr;
    if (is_unknown && refusals_.count() == refused && !keep_unknown_)
      refusals_.add_refusal(node, is_complex_op ? "of complex numbers" : "");
    return builder_.stand_in(node);
  }
  if (row == nullptr && find_custom_kernel(node.target()) != nullptr) {
    import_custom(steps, node);
  } else if (row == nullptr || (is_complex_op && (name.is_in_place || keeps_complex_))) {
    refusals_.add_refusal(node, is_complex_op ? "of complex numbers" : "");
  } else {
    row->import(steps, node);
  }
  if (refusals_.count() != refused && keep_unknown_ && !sizes_.has_new_size(node)) {
    builder_.roll_back(mark, node);
    refusals_.shrink_to(refused);
    if (const std::string why = keep_whole(steps, node); !why.empty())
      refusals_.add_refusal(node, why);
  }
  if (name.is_in_place && refusals_.count() == refused) writes_.write_back(node);
  if (refusals_.count() == refused) return;
  sizes_.give_up(node);
  builder_.stand_in(node);
}

Program Importer::run() {
  const std::vector<Node*> nodes = graph_.nodes();
  keeps_complex_ = keep_unknown_ && std::any_of(nodes.begin(), nodes.end(), has_unknown_complex);
  import_inputs();
  import_states();
  sizes_.note_item_sizes();
  for (const Node* node : nodes) import_node(*node);
  refusals_.fail_if_any(keep_unknown_);
  import_outputs();
  refusals_.fail_if_any(keep_unknown_);  // numbers that only outputs read may be refused
  import_next_states();
  builder_.put_sizes_first();
  return split_at_counts(std::move(builder_.program), sizes_.counted(), depth_);
}

bool is_imported(const std::string& target) {
  return find_import_row(split_target(target).base) != nullptr ||
         find_custom_kernel(target) != nullptr;
}

Program import_graph(const Graph& graph, bool keep_unknown) {
  return Importer(graph, keep_unknown).run();
}

}  // namespace octet
