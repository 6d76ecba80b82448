// Loads inputs and constants, and decides how tensors are stored.
#include "backends/onednn/builder/segment_builder.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "backends/kernels/int16_ops.h"
#include "backends/kernels/isa.h"
#include "core/base/error.h"
#include "lowering/program/float_compute.h"
#include "lowering/program/stored_constant.h"

namespace octet::onednn {
namespace {

constexpr OpKind kChannelsLastOps[] = {"conv", "conv_transpose", "max_pool", "avg_pool",
                                       "adaptive_avg_pool"};

bool works_channels_last(const ProgramOp& op) {
  return std::find(std::begin(kChannelsLastOps), std::end(kChannelsLastOps), op.kind) !=
         std::end(kChannelsLastOps);
}

bool wants_bfloat16(const ProgramOp& op) {
  return op.has(attr::kCompute) && op.get(attr::kCompute) == kBfloat16Name;
}

// Ops that write bfloat16 if they read it.
constexpr OpKind kKeepBfloat16[] = {"add",     "sub",     "mul",   "clamp", "unary", "max_pool",
                                    "reshape", "permute", "slice", "copy",  "cat"};

bool keeps_bfloat16(const ProgramOp& op) {
  return std::find(std::begin(kKeepBfloat16), std::end(kKeepBfloat16), op.kind) !=
         std::end(kKeepBfloat16);
}

// The kernel for weights stored as integers rounds its input itself (weight_product.h).
bool has_integer_weights(const Program& program, const ProgramOp& op) {
  const ProgramTensor& w = program.input(op, 1);
  return op.is("linear") && w.stored && w.stored->scale.defined();
}

// Goes backwards, so that the readers of an op's output are known before the op.
void find_bfloat16(const Program& program, const Segment& segment,
                   std::map<int, TensorState>& states) {
  std::set<int> has_other_form(segment.outputs.begin(), segment.outputs.end());
  for (size_t i = segment.ops.size(); i-- > 0;) {
    const ProgramOp& op = program.op(segment.ops[i]);
    const bool reads = (wants_bfloat16(op) && !has_integer_weights(program, op)) ||
                       (keeps_bfloat16(op) && states[op.outputs[0]].is_read_in_bfloat16);
    for (int input : op.inputs) {
      if (input < 0) continue;
      if (!reads || program.tensor(input).dtype != DType::kFloat32) has_other_form.insert(input);
      states[input].is_read_in_bfloat16 = !has_other_form.contains(input);
    }
  }
}

// Finds who reads each tensor in the segment. Nothing is stored yet.
std::map<int, TensorState> tensor_states(const Program& program, const Segment& segment) {
  std::map<int, TensorState> states;
  for (int op_index : segment.ops) {
    const ProgramOp& op = program.op(op_index);
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (op.inputs[i] < 0) continue;
      TensorState& input = states[op.inputs[i]];
      const bool is_second_factor = op.is("matmul") && i == 1;
      input.is_second_factor = is_second_factor && (!input.is_read || input.is_second_factor);
      // an op on int16 is never fused into the op before it
      input.only_reader = input.is_read || has_int16(program, op) ? nullptr : &op;
      input.is_read = true;
      if (i == 0 && works_channels_last(op)) input.is_read_channels_last = true;
    }
  }
  for (int index : segment.outputs) states[index].only_reader = nullptr;
  if (may_use(Isa::kAvx512Bf16)) find_bfloat16(program, segment, states);
  return states;
}

}  // namespace

SegmentBuilder::SegmentBuilder(const Program& program, const Segment& segment, Purpose purpose)
    : StepList(purpose),
      program_(program),
      segment_(segment),
      states_(tensor_states(program, segment)),
      saturation_(program) {
  for (size_t i = 0; i < segment.inputs.size(); ++i) {
    const int index = segment.inputs[i];
    state(index).kept = add_external(BufferKind::kInput, tensor(index).shape,
                                     declared_quant_params(index), static_cast<int>(i));
  }
}

void SegmentBuilder::end_op() {
  const ProgramOp& op = *current_ops().front();
  const auto form = [&](int index) {
    const Stored* kept = index < 0 ? nullptr : find_kept(index);
    return kept == nullptr ? std::string("?") : to_text(*kept);
  };
  const std::string layout =
      fmt::format("{} -> {}", form(op.inputs[0]), form(current_ops().back()->outputs[0]));
  StepList::end_op(layout);
}

Stored SegmentBuilder::load_constant(int index) {
  const ProgramTensor& t = tensor(index);
  const Tensor data = constant_data(t).contiguous();
  return add_constant(t.shape, declared_quant_params(index), row_major(t.shape),
                      std::shared_ptr<void>(std::make_shared<Tensor>(data), data.raw()));
}

const Stored& SegmentBuilder::read(int index) {
  std::optional<Stored>& kept = state(index).kept;
  if (!kept && is_constant(index)) kept = load_constant(index);
  if (!kept && state(index).late) kept = state(index).late();
  OCTET_ASSERT(kept.has_value(), fmt::format("{} is read before it is made", tensor(index).name));
  return *kept;
}

void SegmentBuilder::define(int index, const Stored& stored) {
  OCTET_ASSERT(product(stored.shape) == tensor(index).numel(), tensor(index).name);
  state(index).kept = stored;
}

QuantParams SegmentBuilder::declared_quant_params(int index) const {
  const ProgramTensor& t = tensor(index);
  const ElementType type = element_type(t.dtype);
  if (type == ElementType::f32) return {};
  if (!t.qparams)
    throw Refusal{fmt::format("{} is {} without scale and zero point", t.name, name_of(t.dtype))};
  if (!t.qparams->is_per_tensor())
    throw Refusal{fmt::format("{} is quantized per channel, want per tensor", t.name)};
  if (type == ElementType::s32)
    throw Refusal{fmt::format("{} is int32, want int8, uint8 or float32", t.name)};
  return {type, t.qparams->scale[0], t.qparams->zero_point[0]};
}

bool SegmentBuilder::computes_in_bfloat16(const ProgramOp& op) const {
  if (!wants_bfloat16(op) || in_float32_.contains(&op)) return false;
  if (!may_use(Isa::kAvx512Bf16)) without_bfloat16_.insert(op.name);
  return may_use(Isa::kAvx512Bf16);
}

QuantParams SegmentBuilder::output_quant_params(int index) const {
  const QuantParams declared = declared_quant_params(index);
  if (!state(index).is_read) return declared;
  if (!state(index).is_second_factor) return as_unsigned(declared);
  if (declared.type == ElementType::u8)
    return {ElementType::s8, declared.scale, declared.zero_point - 128};
  return declared;
}

}  // namespace octet::onednn
