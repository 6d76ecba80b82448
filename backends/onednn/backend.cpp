// Compiles a segment: emits steps first, then plans addresses.
#include "backends/onednn/backend.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/onednn/builder/conversions.h"
#include "backends/onednn/emit/emitters.h"
#include "backends/onednn/kernels/loop.h"
#include "backends/onednn/library.h"
#include "backends/onednn/ops.h"
#include "backends/onednn/plan.h"
#include "core/base/error.h"

namespace octet {
namespace {

// "conv2d_1 and 11 more" for a segment, for messages.
std::string describe_segment(const Program& program, const Segment& segment) {
  const ProgramOp& first = program.op(segment.ops.front());
  return segment.ops.size() == 1
             ? first.name
             : fmt::format("{} and {} more", first.name, segment.ops.size() - 1);
}

Error refused(const std::string& subject, const std::string& reason) {
  return Error("onednn", subject,
               fmt::format("oneDNN {} does not take it: {}; lower the program again",
                           onednn::library_versions().at("onednn"), reason));
}

}  // namespace

std::map<std::string, std::string> OneDnnBackend::versions() const {
  return onednn::library_versions();
}

std::unique_ptr<CompiledSegment> OneDnnBackend::compile(const Program& program,
                                                        const Segment& segment, int threads) const {
  onednn::library_versions();  // throws Error when Octet does not support the library
  OCTET_ASSERT(threads >= 1 && !segment.ops.empty(), "an empty segment or no threads");
  const onednn::ThreadCount count(threads);
  try {
    onednn::SegmentBuilder builder(program, segment, onednn::SegmentBuilder::Purpose::kRun);
    onednn::emit_segment(builder, program, segment);
    return std::make_unique<onednn::OneDnnSegment>(builder, threads);
  } catch (const onednn::OpRefusal& refusal) {
    throw refused(refusal.op, refusal.reason);
  } catch (const onednn::Refusal& refusal) {
    throw refused(describe_segment(program, segment), refusal.reason);
  } catch (const dnnl::error& error) {
    throw refused(describe_segment(program, segment), error.what());
  }
}

std::vector<std::string_view> OneDnnSupport::kinds() const {
  std::vector<std::string_view> kinds;
  for (const onednn::OneDnnOp& row : onednn::onednn_ops()) kinds.push_back(row.kind.name);
  return kinds;
}

bool OneDnnSupport::multiplies_rounded(const Program& program, const ProgramOp& op) const {
  return op.is("linear") && onednn::has_integer_rows(program.input(op, 1), program.output(op));
}

// ---- acceptance: the row's check, then a plan of the op alone

namespace {

// Dtype, shape and quantization. For constants, the number of scales and whether there are zero
// points matter, not their values.
std::string describe_tensor(const ProgramTensor& t) {
  std::string text = fmt::format("{}{}{}", name_of(t.dtype), t.shape, t.is_constant() ? "c" : "");
  if (!t.qparams) return text;
  bool is_symmetric = true;
  for (int32_t zero_point : t.qparams->zero_point) is_symmetric = is_symmetric && zero_point == 0;
  text += fmt::format("q{}x{}", t.qparams->axis, t.qparams->scale.size());
  if (t.qparams->is_per_tensor() && !t.is_constant())
    text += fmt::format(":{}:{}", t.qparams->scale[0], t.qparams->zero_point[0]);
  return text + (is_symmetric ? "s" : "a");
}

// A segment of this op alone.
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

Verdict prove(const Program& program, const ProgramOp& op) {
  try {
    const Segment segment = segment_of(program, op);
    onednn::SegmentBuilder builder(program, segment, onednn::SegmentBuilder::Purpose::kProve);
    onednn::row_of(program, op)->emit(builder, op);
    finish_outputs(builder);
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

std::vector<Tolerance> OneDnnSupport::tolerances() const {
  return {{"unary/gelu", 1, 0, "int16 shows the rounding of its approximation"},
          {"unary/tan", 0, 1e-4, "near a pole, the argument's rounding to float is amplified"}};
}

Verdict OneDnnSupport::accepts(const Program& program, const ProgramOp& op) const {
  if (Verdict checked = onednn::check_op(program, op); !checked) return checked;
  return proofs_.find_or_prove(op_signature(program, op, describe_tensor),
                               [&] { return prove(program, op); });
}

}  // namespace octet
