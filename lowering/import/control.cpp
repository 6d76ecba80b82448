// Imports branches and loops. Each body becomes a separate program. Weights, which are operands of
// the call, become constants of the body.
#include <fmt/format.h>

#include "core/base/error.h"
#include "core/passes/rewrites.h"
#include "lowering/import/graph.h"
#include "lowering/import/steps.h"
#include "lowering/program/control.h"
#include "lowering/program/symbols.h"

namespace octet {
namespace {

// A call that is being imported; `why` says why it cannot be.
struct BodyCall {
  Steps& s;
  const Node& node;
  std::vector<Value*> operands = {};  // tensors and numbers; null: neither
  std::vector<int64_t> bodies = {};   // positions in Program::bodies
  std::string why = {};
};

bool holds_values(const Argument& argument) {
  bool found = false;
  for_each_value(argument, [&](Value*) { found = true; });
  return found;
}

// Adds the operands in one argument, a list of values or None.
void add_operands(BodyCall& call, size_t index) {
  if (index >= call.node.arguments().size()) return;
  const Argument& argument = call.node.arguments()[index].value;
  if (const std::vector<Value*>* values = argument.find<std::vector<Value*>>()) {
    for (Value* value : *values) {
      if (value->kind() != ValueKind::kTensor && !is_number(value->kind()))
        call.why = fmt::format("takes %{}, which is not a tensor", value->name());
      call.operands.push_back(value);
    }
  } else if (const SymIntList* list = argument.find<SymIntList>()) {
    for (const std::variant<int64_t, Value*>& item : list->items) {
      Value* const* value = std::get_if<Value*>(&item);
      if (value == nullptr) call.why = "takes a number";
      call.operands.push_back(value == nullptr ? nullptr : *value);
    }
  } else if (const std::vector<int64_t>* numbers = argument.find<std::vector<int64_t>>();
             (numbers != nullptr && !numbers->empty()) || holds_values(argument)) {
    call.why = "takes operands that are not tensors";
  }
}

const Graph* body_at(BodyCall& call, size_t index) {
  const Subgraph* body = index < call.node.arguments().size()
                             ? call.node.arguments()[index].value.find<Subgraph>()
                             : nullptr;
  if (body == nullptr || body->graph == nullptr) {
    call.why = fmt::format("has no body as argument {}", index);
    return nullptr;
  }
  return body->graph.get();
}

// Copies the body with those operands from `invariant` on that are constants as its constants.
std::unique_ptr<Graph> with_constants(const BodyCall& call, const Graph& body, size_t invariant) {
  std::unique_ptr<Graph> copy = clone(body);
  copy->range_constraints = call.s.importer().graph().range_constraints;
  const std::vector<GraphInput> inputs = copy->inputs();
  for (size_t k = invariant; k < call.operands.size(); ++k) {
    Value* input = inputs[k].value;
    const Tensor* constant =
        call.operands[k] == nullptr ? nullptr : call.s.find_fixed_constant(call.operands[k]);
    if (constant == nullptr || input->is_unused()) continue;
    const std::optional<TensorMeta> meta = input->meta;
    Value* inner =
        copy->add_constant(call.operands[k]->name(), *constant, InputKind::kTensorConstant);
    if (meta) inner->meta = meta;
    copy->replace_uses(input, inner);
  }
  inline_bodies(*copy);
  fold_constants_and_sizes(*copy);
  return copy;
}

void add_body(BodyCall& call, size_t argument, size_t invariant) {
  const Graph* body = call.why.empty() ? body_at(call, argument) : nullptr;
  if (body == nullptr) return;
  if (body->inputs().size() != call.operands.size()) {
    call.why = fmt::format("has a body of {} inputs, want {}", body->inputs().size(),
                           call.operands.size());
    return;
  }
  std::vector<Program>& bodies = call.s.program().bodies;
  try {
    bodies.push_back(
        call.s.importer().import_body(call.node, *with_constants(call, *body, invariant)));
  } catch (const Error& error) {
    if (!call.s.importer().keeps_unknown()) throw;
    call.why = error.what();
    return;
  }
  call.bodies.push_back(static_cast<int64_t>(bodies.size()) - 1);
}

int operand_of(BodyCall& call, Value* value) {
  return value->kind() == ValueKind::kTensor ? call.s.tensor_of(value) : call.s.number_of(value);
}

// Whether a body reads operand k, or a loop carries it.
bool is_wanted(const BodyCall& call, size_t k, size_t invariant) {
  if (call.operands[k] == nullptr) return false;
  if (k < invariant) return true;
  for (int64_t index : call.bodies)
    if (call.s.program().bodies[static_cast<size_t>(index)].inputs[k] >= 0) return true;
  return false;
}

// The size of dimension d of output k as a formula of symbols that the body shares with the
// surrounding program; nullopt if the body itself counts.
std::optional<SizeExpr> find_result_size(const Program& body, size_t k, size_t d) {
  const ProgramTensor& tensor = body.tensor(body.outputs[k]);
  if (d >= tensor.shape.size()) return std::nullopt;
  if (!tensor.sizes.empty() && !tensor.sizes[d].is_number()) return tensor.sizes[d];
  const bool is_open = shape_range(body, tensor).shape[d] < 0;
  return is_open ? std::nullopt : std::optional<SizeExpr>(tensor.shape[d]);
}

// Defines the sizes of the call's results. torch.export gives them new symbols; they equal the
// sizes of the bodies' outputs if the bodies agree. Results after the first `carried` have one more
// dimension than those of the body.
void define_result_sizes(BodyCall& call, size_t first_body, size_t carried) {
  const std::vector<Value*> results = call.node.outputs();
  const std::vector<Program>& programs = call.s.program().bodies;
  for (size_t k = 0; k < results.size(); ++k) {
    const size_t dims = results[k]->meta ? results[k]->meta->sizes.size() : 0, row = k >= carried;
    for (size_t d = row; d < dims; ++d) {
      const Dim& dim = results[k]->meta->sizes[d];
      if (!dim.is_symbolic()) continue;
      const SizeExpr size = call.s.size_table().formula_of(dim.expr, *results[k]);
      if (size.steps().size() != 1 || call.s.size_table().is_known(*size.symbols().begin()))
        continue;
      std::optional<SizeExpr> found;
      for (size_t i = first_body; i < call.bodies.size(); ++i) {
        const Program& body = programs[static_cast<size_t>(call.bodies[i])];
        const std::optional<SizeExpr> given =
            k < body.outputs.size() ? find_result_size(body, k, d - row) : std::nullopt;
        if (!given || (found && !(*found == *given))) return;
        found = given;
      }
      if (found) call.s.size_table().define(*size.symbols().begin(), *found);
    }
  }
}

void emit_call(BodyCall& call, const std::string& kind, std::vector<int> inputs, size_t invariant,
               Attributes attributes) {
  const std::vector<Value*> results = call.node.outputs();
  for (const Value* value : results)
    if (value->kind() != ValueKind::kTensor && !is_number(value->kind()))
      call.why = fmt::format("returns %{}, which is not a tensor", value->name());
  if (results.empty()) call.why = "returns no tensor";
  if (!call.why.empty()) return call.s.refuse(call.why);
  const auto carried = attributes.find(attr::kCarried.name);  // only a scan has it
  define_result_sizes(call, kind == "while_loop" ? 1 : 0,
                      carried == attributes.end()
                          ? results.size()
                          : static_cast<size_t>(std::get<int64_t>(carried->second)));
  if (call.s.importer().refuse_new_sizes(call.node)) return;
  for (size_t k = 0; k < call.operands.size(); ++k)
    inputs.push_back(is_wanted(call, k, invariant) ? operand_of(call, call.operands[k]) : -1);
  attributes[attr::kBodies] = call.bodies;
  const ProgramOp& op = call.s.emit_values(results, kind, std::move(inputs), std::move(attributes));
  const std::string fault = find_control_fault(call.s.program(), op);
  if (!fault.empty()) call.s.refuse(fault);
}

// The condition as a bool; -1 if it is neither a tensor nor a comparison of sizes.
int decision_of(Steps& s, const Node& node) {
  const Argument& argument = node.arguments().front().value;
  if (const bool* known = argument.find<bool>()) return s.filled(DType::kBool, {}, *known ? 1 : 0);
  Value* value = argument.value_or_null();
  if (value == nullptr) return -1;
  if (value->kind() == ValueKind::kSymBool) return s.number_of(value);
  if (value->kind() != ValueKind::kTensor) return -1;
  const int tensor = s.tensor_of(value);
  return s.dtype(tensor) == DType::kBool ? tensor : s.compare("ne", tensor, s.number(0, tensor));
}

// cond(predicate, if_true, if_false, operands)
void import_cond(Steps& s, const Node& node) {
  BodyCall call{s, node};
  const int decision = node.arguments().empty() ? -1 : decision_of(s, node);
  if (decision < 0) return s.refuse("has a condition that is not a bool");
  add_operands(call, 3);
  for (size_t argument : {1, 2}) add_body(call, argument, 0);
  emit_call(call, "cond", {decision}, 0, {});
}

// while_loop(condition, body, carried, additional)
void import_while(Steps& s, const Node& node) {
  BodyCall call{s, node};
  add_operands(call, 2);
  const size_t carried = call.operands.size();
  add_operands(call, 3);
  for (size_t argument : {0, 1}) add_body(call, argument, carried);
  emit_call(call, "while_loop", {}, carried, {});
}

void emit_scan(BodyCall& call, size_t carried, size_t rows) {
  add_body(call, 0, carried + rows);
  const Attributes attributes = {{attr::kCarried, static_cast<int64_t>(carried)},
                                 {attr::kRows, static_cast<int64_t>(rows)}};
  emit_call(call, "scan", {}, carried + rows, attributes);
}

// scan(combine, carried, rows, additional)
void import_scan(Steps& s, const Node& node) {
  BodyCall call{s, node};
  add_operands(call, 1);
  const size_t carried = call.operands.size();
  add_operands(call, 2);
  const size_t rows = call.operands.size() - carried;
  add_operands(call, 3);
  emit_scan(call, carried, rows);
}

// map_impl(body, rows, additional): a scan without carried values.
void import_map(Steps& s, const Node& node) {
  BodyCall call{s, node};
  add_operands(call, 1);
  const size_t rows = call.operands.size();
  add_operands(call, 2);
  emit_scan(call, 0, rows);
}

constexpr ImportRow kControlRows[] = {
    {"higher_order.cond", import_cond},
    {"higher_order.while_loop", import_while},
    {"higher_order.scan", import_scan},
    {"higher_order.map_impl", import_map},
};

}  // namespace

std::span<const ImportRow> control_import_rows() { return kControlRows; }

}  // namespace octet
