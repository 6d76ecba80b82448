// The table of ops.
#include "backends/onednn/ops.h"

#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/kernels/attention.h"
#include "backends/kernels/int16_ops.h"
#include "backends/kernels/recurrent_layer.h"
#include "backends/onednn/builder/conversions.h"
#include "backends/onednn/emit/emitters.h"
#include "backends/reference/reference_backend.h"
#include "core/base/error.h"

namespace octet::onednn {
namespace {

Verdict no_check(const Program&, const ProgramOp&) { return Verdict::accept(); }

// A constant weight and bias.
Verdict check_weights(const Program& program, const ProgramOp& op) {
  if (!program.input(op, 1).is_constant()) return Verdict::refuse("the weight is not constant");
  if (!op.has_input(2)) return Verdict::accept();
  const ProgramTensor& bias = program.input(op, 2);
  if (!bias.is_constant()) return Verdict::refuse("the bias is not constant");
  if (bias.dtype != DType::kFloat32 && bias.dtype != DType::kInt32)
    return Verdict::refuse(
        fmt::format("the bias is {}, want float32 or int32", name_of(bias.dtype)));
  if (bias.dtype == DType::kInt32 && !bias.qparams)
    return Verdict::refuse("the int32 bias has no scale");
  return Verdict::accept();
}

Verdict check_pool(const Program& program, const ProgramOp& op) {
  const size_t rank = program.input(op, 0).shape.size();
  return rank < 3 || rank > 5
             ? Verdict::refuse(fmt::format(
                   "the input has rank {}, want [N, C, 1 to 3 spatial dimensions]", rank))
             : Verdict::accept();
}

Verdict check_norm(const Program& program, const ProgramOp& op) {
  for (size_t i = 1; i < op.inputs.size(); ++i)
    if (op.has_input(i) && !program.input(op, i).is_constant())
      return Verdict::refuse(fmt::format("{} is not constant", program.input(op, i).name));
  return Verdict::accept();
}

Verdict check_upsample(const Program& program, const ProgramOp& op) {
  const size_t rank = program.input(op, 0).shape.size();
  if (rank != 4)
    return Verdict::refuse(fmt::format("the input has rank {}, want [N, C, H, W]", rank));
  const std::string mode = op.get(attr::kMode);
  if (mode != "nearest" && mode != "bilinear")
    return Verdict::refuse(fmt::format("the mode {} is not supported here", mode));
  return Verdict::accept();
}

constexpr OneDnnOp kOps[] = {
    {"conv", check_weights, emit_conv},
    {"conv_transpose", check_weights, emit_conv_transpose},
    {"linear", check_weights, emit_linear},
    {"matmul", no_check, emit_matmul},
    {"add", no_check, emit_elementwise},
    {"sub", no_check, emit_elementwise},
    {"mul", no_check, emit_elementwise},
    {"div", no_check, emit_binary},
    {"minimum", no_check, emit_binary},
    {"maximum", no_check, emit_binary},
    {"prelu", check_norm, emit_prelu},
    {"max_pool", check_pool, emit_max_pool},
    {"avg_pool", check_pool, emit_avg_pool},
    {"adaptive_avg_pool", check_pool, emit_adaptive_avg_pool},
    {"mean", no_check, emit_mean},
    {"reduce", no_check, emit_reduce},
    {"group_norm", check_norm, emit_group_norm},
    {"recurrent", RecurrentLayer::check, emit_recurrent},
    {"attention", FloatAttention::check, emit_attention},
    {"upsample", check_upsample, emit_upsample},
    {"clamp", no_check, emit_clamp},
    {"unary", no_check, emit_unary},
    {"softmax", no_check, emit_softmax},
    {"layer_norm", check_norm, emit_layer_norm},
    {"rms_norm", check_norm, emit_rms_norm},
    {"rotary", no_check, emit_rotary},
    {"batch_norm", check_norm, emit_batch_norm},
    {"quantize", no_check, emit_requantize},
    {"dequantize", no_check, emit_requantize},
    {"fake_quantize_dynamic", no_check, emit_fake_quantize_dynamic},
    {"requantize", no_check, emit_requantize},
    {"reshape", no_check, emit_reshape},
    {"permute", no_check, emit_permute},
    {"cat", no_check, emit_cat},
    {"slice", no_check, emit_slice},
    {"expand", no_check, emit_expand},
    {"pad", no_check, emit_pad},
    {"copy", no_check, emit_copy},
};

Verdict check_same_qparams(const Program& program, const ProgramOp& op) {
  const ProgramTensor& y = program.output(op);
  for (int input : op.inputs) {
    const ProgramTensor& x = program.tensor(input);
    for (const ProgramTensor* t : {&x, &y})
      if (!t->qparams)
        return Verdict::refuse(
            fmt::format("{} is {} without scale and zero point", t->name, name_of(t->dtype)));
    if (!x.qparams->is_per_tensor() || !(real_form(x) == real_form(y)))
      return Verdict::refuse("inputs and output differ in dtype, scale or zero point");
  }
  return Verdict::accept();
}

// The ops that move int16 elements; backends/kernels has all others.
constexpr OneDnnOp kInt16Moves[] = {
    {"reshape", check_same_qparams, emit_reshape}, {"permute", check_same_qparams, emit_permute},
    {"cat", check_same_qparams, emit_cat},         {"slice", check_same_qparams, emit_slice},
    {"expand", check_same_qparams, emit_expand},   {"pad", check_same_qparams, emit_pad},
    {"copy", check_same_qparams, emit_copy},
};
constexpr OneDnnOp kInt16Op = {"custom", check_int16, emit_int16};

}  // namespace

std::span<const OneDnnOp> onednn_ops() { return kOps; }

const OneDnnOp* row_of(const Program& program, const ProgramOp& op) {
  const bool is_int16 = has_int16(program, op);
  for (const OneDnnOp& row : is_int16 ? std::span<const OneDnnOp>(kInt16Moves) : kOps)
    if (row.kind == op.kind) return &row;
  return is_int16 ? &kInt16Op : nullptr;
}

namespace {

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
  if (op.outputs.size() != 1 && !op.is("recurrent"))
    return Verdict::refuse(fmt::format("it has {} outputs, want 1", op.outputs.size()));
  return ReferenceSupport().accepts(program, op);  // counts, shapes and attributes
}

}  // namespace

Verdict check_op(const Program& program, const ProgramOp& op) {
  const OneDnnOp* row = row_of(program, op);
  if (row == nullptr) return Verdict::refuse(fmt::format("oneDNN has no {}", op.kind));
  Verdict tensors = check_tensors(program, op);
  return tensors ? row->check(program, op) : tensors;
}

namespace {

// A product of bfloat16 that oneDNN has no fast kernel for is computed in float32.
void emit_in_best_type(SegmentBuilder& builder, const ProgramOp& op) {
  const auto emit = row_of(builder.program(), op)->emit;
  if (builder.computes_in_bfloat16(op)) {
    try {
      return emit(builder, op);
    } catch (const Refusal&) {
    } catch (const dnnl::error&) {
    }
    builder.compute_in_float32(op);
  }
  emit(builder, op);
}

void emit_op(SegmentBuilder& builder, const ProgramOp& op) {
  if (builder.is_absorbed(op)) return;
  // the program may have been modified since it was lowered
  if (Verdict verdict = check_op(builder.program(), op); !verdict)
    throw OpRefusal{op.name, verdict.reason()};
  builder.begin_op(op);
  try {
    emit_in_best_type(builder, op);
  } catch (const Refusal& refusal) {
    throw OpRefusal{op.name, refusal.reason};
  } catch (const dnnl::error& error) {
    throw OpRefusal{op.name, error.what()};
  }
  builder.end_op();
}

// Finds an addition that is the only reader of a product and whose other operand is made later;
// null otherwise.
const ProgramOp* find_later_addition(const SegmentBuilder& builder, const ProgramOp& op) {
  if (!op.is("conv") && !op.is("linear") && !op.is("matmul")) return nullptr;
  const ProgramOp* reader = builder.find_only_reader(op.outputs[0]);
  if (reader == nullptr || !reader->is("add") || reader->inputs[0] == reader->inputs[1])
    return nullptr;
  return builder.is_made(reader->inputs[reader->inputs[0] == op.outputs[0] ? 1 : 0]) ? nullptr
                                                                                     : reader;
}

}  // namespace

void emit_segment(SegmentBuilder& builder, const Program& program, const Segment& segment) {
  // addition -> the product that fuses it and is emitted right before it
  std::map<const ProgramOp*, const ProgramOp*> waiting;
  for (int index : segment.ops) {
    const ProgramOp& op = program.op(index);
    const ProgramOp* addition = find_later_addition(builder, op);
    if (addition != nullptr && waiting.emplace(addition, &op).second) continue;
    if (const auto product = waiting.find(&op); product != waiting.end())
      emit_op(builder, *product->second);
    emit_op(builder, op);
  }
  finish_outputs(builder);
}

}  // namespace octet::onednn
