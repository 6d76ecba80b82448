// Acceptance: the row's check, then a plan of the op on its own.
#include "backends/onednn/support.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/onednn/library.h"
#include "backends/onednn/ops.h"

namespace octet {
namespace {

std::string print(const Attribute& attribute) {
  struct Printer {
    std::string operator()(bool value) const { return value ? "true" : "false"; }
    std::string operator()(int64_t value) const { return fmt::to_string(value); }
    std::string operator()(double value) const { return fmt::to_string(value); }
    std::string operator()(const std::string& value) const { return value; }
    std::string operator()(const std::vector<int64_t>& values) const {
      return fmt::format("{}", values);
    }
    std::string operator()(const std::vector<double>& values) const {
      return fmt::format("{}", values);
    }
  };
  return std::visit(Printer{}, attribute);
}

// Equal for ops that the library treats alike: kinds, dtypes, shapes, the presence of zero points,
// attributes.
std::string signature(const Program& program, const ProgramOp& op) {
  std::string text = op.kind;
  const auto append_tensor = [&](int index) {
    if (index < 0) {
      text += " -";
      return;
    }
    const ProgramTensor& t = program.tensor(index);
    text += fmt::format(" {}{}{}", name_of(t.dtype), t.shape, t.is_constant() ? "c" : "");
    if (!t.qparams) return;
    bool is_symmetric = true;
    for (int32_t zero_point : t.qparams->zero_point) is_symmetric = is_symmetric && zero_point == 0;
    text += fmt::format("q{}x{}", t.qparams->axis, t.qparams->scale.size());
    if (t.qparams->is_per_tensor() && !t.is_constant())
      text += fmt::format(":{}:{}", t.qparams->scale[0], t.qparams->zero_point[0]);
    text += is_symmetric ? "s" : "a";
  };
  for (int index : op.inputs) append_tensor(index);
  text += " ->";
  for (int index : op.outputs) append_tensor(index);
  for (const std::pair<const std::string, Attribute>& attribute : op.attributes)
    text += fmt::format(" {}={}", attribute.first, print(attribute.second));
  return text;
}

Verdict check_tensors(const Program& program, const ProgramOp& op) {
  for (const std::vector<int>* list : {&op.inputs, &op.outputs}) {
    for (int index : *list) {
      if (index < 0) continue;
      const ProgramTensor& t = program.tensor(index);
      if (t.numel() == 0) return Verdict::refuse(fmt::format("{} has no elements", t.name));
      if (t.shape.size() > 6)
        return Verdict::refuse(
            fmt::format("{} has rank {}, want at most 6", t.name, t.shape.size()));
    }
  }
  if (op.outputs.size() != 1 && op.kind != "recurrent")
    return Verdict::refuse(fmt::format("it has {} outputs, want 1", op.outputs.size()));
  if (op.inputs.empty() || op.inputs[0] < 0) return Verdict::refuse("it has no input");
  return Verdict::accept();
}

// The op's inputs and outputs as those of a segment of its own.
Segment segment_of(const Program& program, const ProgramOp& op) {
  Segment segment;
  segment.backend = "onednn";
  for (int index : op.inputs) {
    if (index < 0 || program.tensor(index).is_constant()) continue;
    if (std::find(segment.inputs.begin(), segment.inputs.end(), index) == segment.inputs.end())
      segment.inputs.push_back(index);
  }
  segment.outputs = op.outputs;
  return segment;
}

Verdict prove(const Program& program, const ProgramOp& op, const onednn::OpRow& row) {
  try {
    const Segment segment = segment_of(program, op);
    onednn::SegmentBuilder builder(program, segment, onednn::SegmentBuilder::Purpose::kProve);
    row.emit(builder, op);
    builder.finish_outputs();
    return Verdict::accept();
  } catch (const onednn::Refusal& refusal) {
    return Verdict::refuse(refusal.reason);
  } catch (const dnnl::error& error) {
    return Verdict::refuse(
        fmt::format("oneDNN has no kernel for these types and shapes ({})", error.what()));
  }
}

}  // namespace

std::map<std::string, std::string> OneDnnSupport::versions() const {
  return onednn::library_versions();
}

Verdict OneDnnSupport::accepts(const Program& program, const ProgramOp& op) const {
  const onednn::OpRow* row = onednn::find_op_row(op.kind);
  if (row == nullptr) return Verdict::refuse(fmt::format("oneDNN has no {}", op.kind));
  if (Verdict tensors = check_tensors(program, op); !tensors) return tensors;
  if (Verdict checked = row->check(program, op); !checked) return checked;
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::string key = signature(program, op);
  const std::map<std::string, Verdict>::const_iterator known = proofs_.find(key);
  if (known != proofs_.end()) return known->second;
  const Verdict verdict = prove(program, op, *row);
  proofs_.emplace(key, verdict);
  return verdict;
}

}  // namespace octet
