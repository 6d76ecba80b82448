// Asks the backends about each op, schedules ops greedily, and gives the ops of segments that are
// too small to another backend.
//
// Example: an NPU accepts conv and relu, and the reference runs the rest.
//
//   conv1 -> relu1 -> sort -> add        conv2 reads the input
//   conv2 -----------------------^
//
// The scheduler takes the ready ops of one backend as long as there are any: conv1, relu1 and conv2
// form one segment of the NPU, then sort and add one of the reference. The order conv1, relu1,
// sort, conv2, add would have four segments. If a segment consisted of relu1 alone and its
// transfers cost more than its work, relu1 would go to the reference.
#include "lowering/partition.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/base/user_code.h"
#include "lowering/fuse/program_editor.h"
#include "lowering/program/control.h"
#include "lowering/program/segments.h"
#include "lowering/program/specialize.h"

namespace octet {

std::string names_of(const Supports& supports) {
  std::vector<std::string> names;
  for (const auto& support : supports) names.push_back(support->name());
  return fmt::format("{}", fmt::join(names, ","));
}

// ---- open sizes

std::vector<SymbolValues> probes_of(const Program& program) {
  if (program.symbols.empty()) return {};
  SymbolValues least, greater;
  for (const ShapeSymbol& symbol : program.symbols) {
    least[symbol.name] = std::min(std::max<int64_t>(symbol.min, 1), symbol.max);
    greater[symbol.name] = std::min(2 * symbol.hint + 1, symbol.max);
  }
  return {least, greater};
}

namespace {

bool depends_on_symbols(const Program& program, const ProgramOp& op) {
  const auto is_open = [&](int index) {
    return index >= 0 && !program.tensor(index).sizes.empty();
  };
  return !op.sizes.empty() || std::any_of(op.inputs.begin(), op.inputs.end(), is_open) ||
         std::any_of(op.outputs.begin(), op.outputs.end(), is_open);
}

}  // namespace

Verdict ask_at_sizes(const BackendSupport& support, const Program& program, const ProgramOp& op) {
  const Verdict verdict = ask("lower", support, program, op);
  if (!verdict || !depends_on_symbols(program, op)) return verdict;
  for (const SymbolValues& values : probes_of(program)) {
    const Program fixed = specialize_op(program, op, values);
    const Verdict other = ask("lower", support, fixed, fixed.ops[0]);
    if (!other) return Verdict::refuse(fmt::format("{} (at {})", other.reason(), describe(values)));
  }
  return verdict;
}

namespace {

// ---- reasons

// Why each backend that was asked, in order, does not run an op.
using Reasons = std::vector<std::string>;

// Asks the backends after those that refused the op, until one accepts it.
void ask_next(const Supports& supports, const Program& program, const ProgramOp& op,
              Reasons& refusals) {
  while (refusals.size() < supports.size()) {
    const Verdict verdict = ask_at_sizes(*supports[refusals.size()], program, op);
    if (verdict) return;
    refusals.push_back(verdict.reason());
  }
}

// With the names of the backends, if there are several.
std::string reason_of(const Supports& supports, const Reasons& refusals) {
  if (supports.size() == 1) return refusals.front();
  std::vector<std::string> parts;
  for (size_t i = 0; i < refusals.size(); ++i)
    parts.push_back(fmt::format("{}: {}", supports[i]->name(), refusals[i]));
  return fmt::format("{}", fmt::join(parts, "; "));
}

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

bool any_accepts(const Supports& supports, const Program& program, const FloatForm& form) {
  return std::any_of(supports.begin(), supports.end(), [&](const auto& support) {
    const auto accepted = [&](const ProgramOp& op) {
      return static_cast<bool>(ask_at_sizes(*support, program, op));
    };
    return accepted(form.op) && std::all_of(form.before.begin(), form.before.end(), accepted) &&
           std::all_of(form.after.begin(), form.after.end(), accepted);
  });
}

}  // namespace

int split_refused(Program& program, const Supports& supports, Report& report) {
  int changes = 0;
  for (Program& body : program.bodies) changes += split_refused(body, supports, report);
  ProgramEditor editor(program);
  for (size_t i = 0; i < editor.op_count(); ++i) {
    const OpContract* contract = find_contract(editor.op(i).kind);
    if (contract == nullptr || contract->nature != Nature::kCompute ||
        !touches_integers(program, editor.op(i)))
      continue;
    Reasons refusals;
    ask_next(supports, program, editor.op(i), refusals);
    if (refusals.size() < supports.size()) continue;
    const size_t tensors = program.tensors.size();
    FloatForm form = make_float_form(editor, editor.op(i));
    if (!any_accepts(supports, program, form)) {
      program.tensors.resize(tensors);
      editor.refresh();
      continue;
    }
    note_reason(program, report, form.op,
                fmt::format("runs in float32: {}", reason_of(supports, refusals)));
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

TransferCost cost_of(const BackendSupport& support) {
  const TransferCost cost = in_user_code("lower", support.name(), "its transfer_cost()",
                                         [&] { return support.transfer_cost(); });
  for (double macs : {cost.macs_per_segment, cost.macs_per_byte})
    if (!(macs >= 0 && std::isfinite(macs)))
      throw Error("lower", support.name(),
                  fmt::format("its transfer_cost() has {}, want numbers of at least 0", macs));
  return cost;
}

// What the transfers of a segment cost more than its ops; "" if they are worth it.
std::string fault_of_size(const Program& program, const Segment& segment,
                          const TransferCost& cost) {
  double macs = 0;
  size_t bytes = 0;
  for (int index : segment.ops) macs += static_cast<double>(program.op(index).macs);
  for (const std::vector<int>* indices : {&segment.inputs, &segment.outputs})
    for (int index : *indices) bytes += program.tensor(index).nbytes();
  const double wanted = cost.macs_per_segment + cost.macs_per_byte * static_cast<double>(bytes);
  if (macs >= wanted) return "";
  return fmt::format(
      "its segment of {} op{} has {:.0f} multiply-accumulates, want {:.0f} to make up for the "
      "transfer of {} bytes",
      segment.ops.size(), segment.ops.size() == 1 ? "" : "s", macs, std::ceil(wanted), bytes);
}

// Assigns each op of one program to a backend: the first that did not refuse it.
class Assignment {
 public:
  Assignment(const Program& program, const Supports& supports, const std::string& fallback)
      : program_(program), supports_(supports), fallback_(fallback), refusals_(program.ops.size()) {
    for (const auto& support : supports) costs_.push_back(cost_of(*support));
    for (size_t i = 0; i < program.ops.size(); ++i)
      if (!is_control(program.ops[i])) ask_next(supports_, program_, program.ops[i], refusals_[i]);
  }

  std::vector<std::string> backends() const {
    std::vector<std::string> names;
    for (size_t i = 0; i < refusals_.size(); ++i) {
      const ProgramOp& op = program_.ops[i];
      names.push_back(is_control(op)    ? kControl
                      : !is_left_out(i) ? supports_[refusals_[i].size()]->name()
                      : op.is("aten")   ? "torch"  // backends/torch runs these
                                        : fallback_);
    }
    return names;
  }

  // Moves the ops of segments that are not worth their transfers on: those of the first backend
  // that has any, because they may make the segments of the next one larger. Returns whether it
  // moved any.
  bool move_small_segments() {
    for (size_t i = 0; i < supports_.size(); ++i) {
      bool has_moved = false;
      for (const Segment& segment : program_.segments) {
        if (segment.backend != supports_[i]->name()) continue;
        const std::string fault = fault_of_size(program_, segment, costs_[i]);
        if (!fault.empty()) has_moved |= move(segment, i, fault);
      }
      if (has_moved) return true;
    }
    return false;
  }

  bool is_left_out(size_t op) const { return refusals_[op].size() == supports_.size(); }
  // "": the first backend runs it.
  std::string reason(size_t op) const {
    return refusals_[op].empty() ? "" : reason_of(supports_, refusals_[op]);
  }

 private:
  bool move(const Segment& segment, size_t from, const std::string& reason) {
    bool has_moved = false;
    for (int index : segment.ops) {
      Reasons& refusals = refusals_[static_cast<size_t>(index)];
      if (refusals.size() != from) continue;  // of the fallback, if that has the same name
      refusals.push_back(reason);
      ask_next(supports_, program_, program_.op(index), refusals);
      has_moved = true;
    }
    return has_moved;
  }

  const Program& program_;
  const Supports& supports_;
  const std::string& fallback_;
  std::vector<TransferCost> costs_;  // by backend
  std::vector<Reasons> refusals_;    // by op
};

void check_left_out(const Program& program, const Supports& supports,
                    const Assignment& assignment) {
  std::vector<std::string> left_out;
  for (size_t i = 0; i < program.ops.size(); ++i)
    if (assignment.is_left_out(i))
      left_out.push_back(fmt::format("{} ({}): {}", program.ops[i].name, program.ops[i].kind,
                                     assignment.reason(i)));
  if (left_out.empty()) return;
  throw Error("lower", names_of(supports),
              fmt::format("refuse{} {} op{} and there is no fallback: {}; allow the fallback "
                          "reference",
                          supports.size() == 1 ? "s" : "", left_out.size(),
                          left_out.size() == 1 ? "" : "s", fmt::join(left_out, "; ")));
}

}  // namespace

void partition(Program& program, const Supports& supports, const std::string& fallback,
               Report& report) {
  for (Program& body : program.bodies) partition(body, supports, fallback, report);
  Assignment assignment(program, supports, fallback);
  do {
    program.segments = Scheduler(program, assignment.backends()).run();
    connect_segments(program);
  } while (assignment.move_small_segments());
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const std::string reason = assignment.reason(i);
    // An op that split_refused() has changed keeps the reason for that.
    if (!reason.empty() && !program.reasons.contains(program.ops[i].name))
      note_reason(program, report, program.ops[i], reason);
  }
  if (fallback.empty()) check_left_out(program, supports, assignment);
}

}  // namespace octet
