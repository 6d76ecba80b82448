// Asks the backend about each op, schedules ops greedily, and finds the tensors that cross
// segments.
#include "lowering/partition.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/base/user_code.h"
#include "lowering/fuse/program_editor.h"
#include "lowering/program/control.h"
#include "lowering/program/specialize.h"

namespace octet {
namespace {

void note_reason(Program& program, Report& report, const ProgramOp& op, const std::string& reason) {
  program.reasons[op.name] = reason;
  report.add({"lower", op.name, op.kind, op.module, reason});
}

// ---- integers or floats

// The float form of an op, with the conversions of its inputs and outputs.
struct FloatForm {
  std::vector<ProgramOp> before;
  ProgramOp op;
  std::vector<ProgramOp> after;
};

bool touches_integers(const Program& program, const ProgramOp& op) {
  const auto is_quantized = [&](int index) {
    return index >= 0 && program.tensor(index).qparams.has_value();
  };
  return std::any_of(op.inputs.begin(), op.inputs.end(), is_quantized) ||
         std::any_of(op.outputs.begin(), op.outputs.end(), is_quantized);
}

int add_float_twin(ProgramEditor& editor, int index) {
  ProgramTensor twin = editor.tensor(index);
  twin.name += "_f32";
  twin.dtype = DType::kFloat32;
  twin.qparams.reset();
  twin.role = ProgramTensor::Role::kIntermediate;
  return editor.add_tensor(std::move(twin));
}

ProgramOp conversion(const char* kind, const ProgramOp& of, int from, int to) {
  ProgramOp op;
  op.kind = kind;
  op.name = fmt::format("{}_{}", of.name, kind);
  op.inputs = {from};
  op.outputs = {to};
  op.module = of.module;
  return op;
}

FloatForm make_float_form(ProgramEditor& editor, const ProgramOp& op) {
  FloatForm form{{}, op, {}};
  for (int& index : form.op.inputs) {
    if (index < 0 || !editor.tensor(index).qparams) continue;
    const int integer = index;
    if (editor.is_constant(integer)) {
      index = editor.add_dequantized(editor.tensor(integer).name + "_f32", integer);
    } else {
      index = add_float_twin(editor, integer);
      form.before.push_back(conversion("dequantize", op, integer, index));
    }
  }
  const int result = op.outputs[0];
  if (editor.tensor(result).qparams) {
    form.op.outputs[0] = add_float_twin(editor, result);
    form.after.push_back(conversion("quantize", op, form.op.outputs[0], result));
  }
  return form;
}

bool accepts_all(const Program& program, const BackendSupport& support, const FloatForm& form) {
  const auto accepted = [&](const ProgramOp& op) {
    return static_cast<bool>(support.accepts(program, op));
  };
  return accepted(form.op) && std::all_of(form.before.begin(), form.before.end(), accepted) &&
         std::all_of(form.after.begin(), form.after.end(), accepted);
}

}  // namespace

int split_refused(Program& program, const BackendSupport& support, Report& report) {
  int changes = 0;
  for (Program& body : program.bodies) changes += split_refused(body, support, report);
  ProgramEditor editor(program);
  for (size_t i = 0; i < editor.op_count(); ++i) {
    const OpContract* contract = find_contract(editor.op(i).kind);
    if (contract == nullptr || contract->nature != Nature::kCompute ||
        !touches_integers(program, editor.op(i)))
      continue;
    const Verdict verdict = support.accepts(program, editor.op(i));
    if (verdict) continue;
    const size_t tensors = program.tensors.size();
    FloatForm form = make_float_form(editor, editor.op(i));
    if (!accepts_all(program, support, form)) {
      program.tensors.resize(tensors);
      editor.refresh();
      continue;
    }
    note_reason(program, report, form.op, fmt::format("runs in float32: {}", verdict.reason()));
    editor.op(i) = std::move(form.op);
    for (ProgramOp& op : form.after) editor.insert(i + 1, std::move(op));
    for (ProgramOp& op : form.before) editor.insert(i++, std::move(op));
    ++changes;
    i += form.after.size();
  }
  if (changes != 0) editor.compact();
  return changes;
}

// ---- segments

namespace {

std::vector<std::string> choose_backends(Program& program, const BackendSupport& support,
                                         const std::string& fallback, Report& report) {
  std::vector<std::string> chosen;
  std::vector<std::string> left_out;
  for (const ProgramOp& op : program.ops) {
    if (is_control(op)) {
      chosen.push_back(kControl);
      continue;
    }
    const Verdict verdict = support.accepts(program, op);
    const bool is_kept_whole = op.is("aten");  // backends/torch runs these
    chosen.push_back(verdict ? support.name() : is_kept_whole ? "torch" : fallback);
    if (verdict) continue;
    note_reason(program, report, op, verdict.reason());
    left_out.push_back(fmt::format("{} ({}): {}", op.name, op.kind, verdict.reason()));
  }
  if (fallback.empty() && !left_out.empty())
    throw Error(
        "lower", support.name(),
        fmt::format("refuses {} op{} and there is no fallback: {}; allow the fallback reference",
                    left_out.size(), left_out.size() == 1 ? "" : "s", fmt::join(left_out, "; ")));
  return chosen;
}

// Takes ready ops of one backend as long as there are any, then continues with the backend of the
// first ready op.
class Scheduler {
 public:
  Scheduler(const Program& program, const std::vector<std::string>& backends)
      : program_(program),
        backends_(backends),
        is_made_(program.tensors.size(), false),
        is_done_(program.ops.size(), false) {
    for (int index : program.given())
      if (index >= 0) is_made_[static_cast<size_t>(index)] = true;
    for (size_t i = 0; i < program.tensors.size(); ++i)
      if (program.tensors[i].is_constant()) is_made_[i] = true;
  }

  std::vector<Segment> run() {
    std::vector<Segment> segments;
    for (size_t first = next_ready(); first < program_.ops.size(); first = next_ready()) {
      Segment segment;
      segment.backend = backends_[first];
      // One pass in program order finds all ops that become ready, because inputs come before their
      // readers.
      for (size_t i = first; i < program_.ops.size(); ++i) {
        if (is_done_[i] || backends_[i] != segment.backend || !is_ready(i)) continue;
        segment.ops.push_back(static_cast<int>(i));
        is_done_[i] = true;
        for (int index : program_.ops[i].outputs) is_made_[static_cast<size_t>(index)] = true;
        if (segment.backend == kControl) break;
      }
      segments.push_back(std::move(segment));
    }
    OCTET_ASSERT(std::find(is_done_.begin(), is_done_.end(), false) == is_done_.end(),
                 "an op never becomes ready");
    return segments;
  }

 private:
  bool is_ready(size_t i) const {
    const std::vector<int>& inputs = program_.ops[i].inputs;
    return std::all_of(inputs.begin(), inputs.end(), [&](int index) {
      return index < 0 || is_made_[static_cast<size_t>(index)];
    });
  }
  size_t next_ready() const {
    for (size_t i = 0; i < program_.ops.size(); ++i)
      if (!is_done_[i] && is_ready(i)) return i;
    return program_.ops.size();
  }

  const Program& program_;
  const std::vector<std::string>& backends_;
  std::vector<bool> is_made_;
  std::vector<bool> is_done_;
};

void add_once(std::vector<int>& list, int index) {
  if (std::find(list.begin(), list.end(), index) == list.end()) list.push_back(index);
}

void list_inputs_and_outputs(Program& program) {
  std::vector<int> maker(program.tensors.size(), -1);
  for (size_t s = 0; s < program.segments.size(); ++s)
    for (int op : program.segments[s].ops)
      for (int index : program.op(op).outputs)
        maker[static_cast<size_t>(index)] = static_cast<int>(s);
  const auto give = [&](int index) {
    if (maker[static_cast<size_t>(index)] >= 0)
      add_once(program.segments[static_cast<size_t>(maker[static_cast<size_t>(index)])].outputs,
               index);
  };
  for (size_t s = 0; s < program.segments.size(); ++s)
    for (int op : program.segments[s].ops)
      for (int index : program.op(op).inputs) {
        if (index < 0 || program.tensor(index).is_constant() ||
            maker[static_cast<size_t>(index)] == static_cast<int>(s))
          continue;
        add_once(program.segments[s].inputs, index);
        give(index);
      }
  for (int index : program.results()) give(index);
}

}  // namespace

void partition(Program& program, const BackendSupport& support, const std::string& fallback,
               Report& report) {
  for (Program& body : program.bodies) partition(body, support, fallback, report);
  const std::vector<std::string> backends = choose_backends(program, support, fallback, report);
  program.segments = Scheduler(program, backends).run();
  list_inputs_and_outputs(program);
}

// ---- open sizes

namespace {

bool depends_on_symbols(const Program& program, const ProgramOp& op) {
  const auto is_open = [&](int index) {
    return index >= 0 && !program.tensor(index).sizes.empty();
  };
  return !op.sizes.empty() || std::any_of(op.inputs.begin(), op.inputs.end(), is_open) ||
         std::any_of(op.outputs.begin(), op.outputs.end(), is_open);
}

}  // namespace

std::vector<SymbolValues> probes_of(const Program& program) {
  if (program.symbols.empty()) return {};
  SymbolValues least, greater;
  for (const ShapeSymbol& symbol : program.symbols) {
    least[symbol.name] = std::min(std::max<int64_t>(symbol.min, 1), symbol.max);
    greater[symbol.name] = std::min(2 * symbol.hint + 1, symbol.max);
  }
  return {least, greater};
}

Verdict SupportAtSizes::accepts(const Program& program, const ProgramOp& op) const {
  const Verdict verdict = in_user_code("lower", support_.name(),
                                       fmt::format("its accepts() of {} ({})", op.name, op.kind),
                                       [&] { return support_.accepts(program, op); });
  if (!verdict && verdict.reason().empty())
    throw Error("lower", support_.name(),
                fmt::format("its accepts() refuses {} ({}) without a reason; give "
                            "Verdict::refuse() one",
                            op.name, op.kind));
  if (!verdict || !depends_on_symbols(program, op)) return verdict;
  for (const SymbolValues& values : probes_of(program)) {
    const Program fixed = specialize_op(program, op, values);
    const Verdict other = support_.accepts(fixed, fixed.ops[0]);
    if (!other) return Verdict::refuse(fmt::format("{} (at {})", other.reason(), describe(values)));
  }
  return verdict;
}

}  // namespace octet
