// Checks control flow: compares the inputs and outputs of bodies with the ops that run them.
#include "lowering/program/control.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"

namespace octet {
namespace {

// Compares an input or output of a body with the tensor in the program.
std::string find_difference(const std::string& what, const ProgramTensor& got, DType dtype,
                            const std::vector<int64_t>& shape) {
  if (got.dtype == dtype && got.shape == shape) return "";
  return fmt::format("{} ({}) is {}[{}], want {}[{}]", what, got.name, short_name_of(got.dtype),
                     fmt::join(got.shape, ", "), short_name_of(dtype), fmt::join(shape, ", "));
}

// Checks one op and keeps the first fault.
struct Check {
  const Program& program;
  const ProgramOp& op;
  std::string fault = {};

  void fail(const std::string& what) {
    if (fault.empty()) fault = what;
  }

  const ProgramTensor* input(size_t i) const {
    return op.has_input(i) ? &program.input(op, i) : nullptr;
  }

  // Input k of the body must match input first + k of the op; for the `rows` inputs after the first
  // `carried`, it must match one row.
  void takes(const Program& body, size_t first, size_t carried, size_t rows) {
    if (body.inputs.size() + first != op.inputs.size())
      return fail(fmt::format("a body takes {} inputs, want {}", body.inputs.size(),
                              op.inputs.size() - first));
    for (size_t k = 0; k < body.inputs.size(); ++k) {
      if (body.inputs[k] < 0) continue;
      const ProgramTensor* given = input(first + k);
      if (given == nullptr) return fail(fmt::format("input {} of a body is absent", k));
      std::vector<int64_t> shape = given->shape;
      if (k >= carried && k < carried + rows) shape.erase(shape.begin());
      fail_if(find_difference(fmt::format("input {} of a body", k), body.tensor(body.inputs[k]),
                              given->dtype, shape));
    }
  }

  // Outputs [first, first + count) of the body must match those of the op; stacked: one row of
  // them.
  void gives(const Program& body, size_t first, size_t count, bool stacked) {
    for (size_t k = first; k < first + count; ++k) {
      const ProgramTensor& result = program.output(op, k);
      std::vector<int64_t> shape = result.shape;
      if (stacked && shape.empty()) return fail("a stacked output has no dimension");
      if (stacked) shape.erase(shape.begin());
      fail_if(find_difference(fmt::format("output {} of a body", k), body.tensor(body.outputs[k]),
                              result.dtype, shape));
    }
  }

  // Carried values must have one dtype and shape in all rounds.
  void carries(size_t count) {
    if (op.inputs.size() < count || op.outputs.size() < count)
      return fail(fmt::format("carries {} values, got {} inputs and {} outputs", count,
                              op.inputs.size(), op.outputs.size()));
    for (size_t k = 0; k < count; ++k) {
      if (input(k) == nullptr) return fail(fmt::format("carried input {} is absent", k));
      fail_if(find_difference(fmt::format("carried input {}", k), *input(k),
                              program.output(op, k).dtype, program.output(op, k).shape));
    }
  }

  void decides(const ProgramTensor& tensor) {
    if (tensor.dtype != DType::kBool || tensor.numel() != 1)
      fail(fmt::format("{} decides, which is {}[{}], want one bool", tensor.name,
                       short_name_of(tensor.dtype), fmt::join(tensor.shape, ", ")));
  }

  void counts(const Program& body, size_t outputs) {
    if (body.outputs.size() != outputs)
      fail(fmt::format("a body returns {} outputs, want {}", body.outputs.size(), outputs));
  }

 private:
  void fail_if(const std::string& what) {
    if (!what.empty()) fail(what);
  }
};

void check_cond(Check& check, const std::vector<const Program*>& bodies) {
  if (check.input(0) == nullptr) return check.fail("nothing decides");
  check.decides(*check.input(0));
  for (const Program* body : bodies) {
    check.takes(*body, 1, 0, 0);
    check.counts(*body, check.op.outputs.size());
    if (check.fault.empty()) check.gives(*body, 0, body->outputs.size(), false);
  }
}

void check_while(Check& check, const std::vector<const Program*>& bodies) {
  const size_t carried = check.op.outputs.size();
  check.carries(carried);
  check.counts(*bodies[0], 1);
  check.counts(*bodies[1], carried);
  if (!check.fault.empty()) return;
  check.decides(bodies[0]->tensor(bodies[0]->outputs[0]));
  for (const Program* body : bodies) check.takes(*body, 0, carried, 0);
  check.gives(*bodies[1], 0, carried, false);
}

void check_scan(Check& check, const std::vector<const Program*>& bodies) {
  const int64_t carried = check.op.get(attr::kCarried), rows = check.op.get(attr::kRows);
  const auto limit = static_cast<int64_t>(check.op.inputs.size());
  if (carried < 0 || rows < 1 || carried > limit || rows > limit - carried)
    return check.fail(
        fmt::format("carries {} values and scans {} of {} inputs", carried, rows, limit));
  const auto first = static_cast<size_t>(carried), count = static_cast<size_t>(rows);
  check.carries(first);
  check.counts(*bodies[0], check.op.outputs.size());
  if (!check.fault.empty()) return;
  int64_t length = -1;
  const auto walk = [&](const ProgramTensor* tensor) {
    if (tensor == nullptr || tensor->shape.empty() || (length >= 0 && tensor->shape[0] != length))
      return check.fail("scans tensors that have no rows, or different numbers of rows");
    length = tensor->shape[0];
  };
  for (size_t k = first; k < first + count; ++k) walk(check.input(k));
  for (size_t k = first; k < check.op.outputs.size(); ++k) walk(&check.program.output(check.op, k));
  if (!check.fault.empty()) return;
  check.takes(*bodies[0], 0, first, count);
  check.gives(*bodies[0], 0, first, false);
  check.gives(*bodies[0], first, check.op.outputs.size() - first, true);
}

// A symbol that the program lacks must be a number of rows that a count decides.
void check_counted_symbols(Check& check, const Program& body) {
  for (const ShapeSymbol& symbol : body.symbols) {
    const bool is_known = std::find(check.program.symbols.begin(), check.program.symbols.end(),
                                    symbol) != check.program.symbols.end();
    if (!is_known && (has_symbol(check.program, symbol.name) ||
                      !find_counted_input(body, check.op, symbol.name)))
      check.fail(fmt::format("no count decides the symbol {} of the body", symbol.name));
  }
}

void check_rest(Check& check, const std::vector<const Program*>& bodies) {
  const Program& body = *bodies[0];
  const int64_t counts = check.op.get(attr::kCounts);
  if (counts < 1 || static_cast<size_t>(counts) > body.inputs.size())
    return check.fail(fmt::format("has {} counts for {} inputs", counts, body.inputs.size()));
  const auto first = static_cast<size_t>(counts);
  for (size_t k = 0; k < first; ++k) {
    const ProgramTensor* count = check.input(k);
    if (count == nullptr || count->dtype != DType::kInt64 || count->numel() != 1)
      return check.fail(fmt::format("count {} is not an i64 of one element", k));
    if (body.inputs[k] < 0 || body.tensor(body.inputs[k]).shape.empty())
      return check.fail(fmt::format("input {} of a body has no rows", k));
  }
  check.takes(body, first, 0, 0);
  check.counts(body, check.op.outputs.size());
  if (!check.fault.empty()) return;
  check.gives(body, 0, body.outputs.size(), false);
  check_counted_symbols(check, body);
}

struct ControlRow {
  OpKind kind;
  size_t bodies;
  void (*check)(Check&, const std::vector<const Program*>&);
};

constexpr ControlRow kControlRows[] = {
    {"cond", 2, check_cond},
    {"while_loop", 2, check_while},
    {"scan", 1, check_scan},
    {"rest", 1, check_rest},
};

const ControlRow* find_control_row(const std::string& kind) {
  for (const ControlRow& row : kControlRows)
    if (row.kind == kind) return &row;
  return nullptr;
}

// Whether each body belongs to a `rest`, by position in Program::bodies.
std::vector<bool> bodies_of_rests(const Program& program) {
  std::vector<bool> is_rest(program.bodies.size(), false);
  for (const ProgramOp& op : program.ops)
    if (op.is("rest"))
      for (int64_t body : bodies_of(op))
        if (body >= 0 && static_cast<size_t>(body) < is_rest.size())
          is_rest[static_cast<size_t>(body)] = true;
  return is_rest;
}

void verify_symbols_of(const Program& body, const Program& program) {
  for (const ShapeSymbol& symbol : body.symbols)
    OCTET_ASSERT(
        std::find(program.symbols.begin(), program.symbols.end(), symbol) != program.symbols.end(),
        fmt::format("a body has the symbol {}, which the program lacks", symbol.name));
}

}  // namespace

bool has_symbol(const Program& program, std::string_view name) {
  return std::any_of(program.symbols.begin(), program.symbols.end(),
                     [&](const ShapeSymbol& symbol) { return symbol.name == name; });
}

std::optional<size_t> find_counted_input(const Program& body, const ProgramOp& rest,
                                         std::string_view symbol) {
  const auto counts = static_cast<size_t>(std::max<int64_t>(rest.get(attr::kCounts), 0));
  for (size_t k = 0; k < std::min(counts, body.inputs.size()); ++k) {
    if (body.inputs[k] < 0) continue;
    const std::vector<SizeExpr>& sizes = body.tensor(body.inputs[k]).sizes;
    if (!sizes.empty() && sizes[0] == SizeExpr::symbol(std::string(symbol))) return k;
  }
  return std::nullopt;
}

const ProgramOp* find_rest(const Program& program, size_t body) {
  for (const ProgramOp& op : program.ops)
    if (op.is("rest") && bodies_of(op) == std::vector<int64_t>{static_cast<int64_t>(body)})
      return &op;
  return nullptr;
}

bool is_control(const ProgramOp& op) { return find_control_row(op.kind) != nullptr; }

std::vector<int64_t> bodies_of(const ProgramOp& op) { return op.get(attr::kBodies); }

std::string find_control_fault(const Program& program, const ProgramOp& op) {
  const ControlRow* row = find_control_row(op.kind);
  if (row == nullptr) return fmt::format("{} is not a branch or loop", op.kind);
  const std::vector<int64_t> indices = bodies_of(op);
  if (indices.size() != row->bodies)
    return fmt::format("has {} bodies, want {}", indices.size(), row->bodies);
  std::vector<const Program*> bodies;
  for (int64_t index : indices) {
    if (index < 0 || static_cast<size_t>(index) >= program.bodies.size())
      return fmt::format("runs body {} of {}", index, program.bodies.size());
    bodies.push_back(&program.bodies[static_cast<size_t>(index)]);
  }
  Check check{program, op};
  row->check(check, bodies);
  return check.fault;
}

void verify_bodies(const Program& program, size_t depth) {
  OCTET_ASSERT(program.bodies.empty() || depth < kDeepestBodies,
               fmt::format("bodies are nested deeper than {}", kDeepestBodies));
  const std::vector<bool> is_rest = bodies_of_rests(program);
  for (size_t i = 0; i < program.bodies.size(); ++i) {
    const Program& body = program.bodies[i];
    verify(body, depth + 1);
    OCTET_ASSERT(body.states.empty(), "a body has states");
    if (!is_rest[i]) verify_symbols_of(body, program);
  }
  std::vector<size_t> uses(program.bodies.size(), 0);
  for (const ProgramOp& op : program.ops) {
    if (!is_control(op)) continue;
    const std::string fault = find_control_fault(program, op);
    OCTET_ASSERT(fault.empty(), fmt::format("{} ({}): {}", op.name, op.kind, fault));
    for (int64_t body : bodies_of(op)) ++uses[static_cast<size_t>(body)];
  }
  // The body of a `rest` cannot be shared, because its sizes are those of one op's inputs.
  for (size_t i = 0; i < uses.size(); ++i)
    OCTET_ASSERT(uses[i] < 2 || !is_rest[i],
                 fmt::format("body {} is that of a rest and of another op", i));
  for (const Segment& segment : program.segments)
    for (int index : segment.ops)
      OCTET_ASSERT(is_control(program.op(index)) == (segment.backend == kControl) &&
                       (segment.backend != kControl || segment.ops.size() == 1),
                   program.op(index).name + " is in a segment of another kind");
}

std::set<std::string> backends_of(const Program& program) {
  std::set<std::string> names;
  for (const Segment& segment : program.segments)
    if (segment.backend != kControl) names.insert(segment.backend);
  for (const Program& body : program.bodies) names.merge(backends_of(body));
  return names;
}

void drop_unused_bodies(Program& program) {
  if (program.bodies.empty()) return;
  std::vector<Program> kept;
  for (ProgramOp& op : program.ops) {
    if (!is_control(op)) continue;
    std::vector<int64_t> renumbered;
    for (int64_t index : bodies_of(op)) {
      renumbered.push_back(static_cast<int64_t>(kept.size()));
      kept.push_back(std::move(program.bodies[static_cast<size_t>(index)]));
    }
    op.attributes[attr::kBodies] = std::move(renumbered);
  }
  program.bodies = std::move(kept);
}

}  // namespace octet
