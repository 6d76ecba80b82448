#include "backends/xnnpack/dynamic.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/xnnpack/custom_ops.h"
#include "backends/xnnpack/native_ops.h"
#include "backends/xnnpack/stage.h"
#include "lowering/program/stored_constant.h"

namespace octet::xnnpack {
namespace {

constexpr int64_t kMaxWidth = 65000;  // 255 * 128 * kMaxWidth fits 32 bits

const ProgramOp* find_maker(const Program& program, int tensor) {
  for (const ProgramOp& op : program.ops)
    if (std::find(op.outputs.begin(), op.outputs.end(), tensor) != op.outputs.end()) return &op;
  return nullptr;
}

bool is_constant_input(const Program& program, const ProgramOp& op, size_t i) {
  return !op.has_input(i) || program.input(op, i).is_constant();
}

// Why an op that reads `quantized` cannot multiply its integers. kind: of ops that can.
Verdict check_reader(const Program& program, const ProgramOp& op, int quantized, OpKind kind) {
  const bool multiplies =
      op.kind == kind && op.inputs.size() >= 2 && op.inputs[0] == quantized && op.has_input(1);
  if (!multiplies) return Verdict::refuse(fmt::format("{} reads its floats", op.kind));
  if (!is_constant_input(program, op, 1) || !is_constant_input(program, op, 2))
    return Verdict::refuse("its weight or bias is not a constant");
  const ProgramTensor& w = program.input(op, 1);
  const bool has_groups = kind.name == "linear" && has_weight_groups(w);
  const std::optional<IntegerWeights> weights =
      has_groups ? IntegerWeights{} : find_integer_weights(w);
  const OutputRange range = post_range_of(op);
  if (!weights)
    return Verdict::refuse(w.stored
                               ? fmt::format("its weight is stored as {}, want int8 with a "
                                             "scale per row or one (on Arm also one per 16 or "
                                             "more inputs, a multiple of 4), and zero points 0",
                                             describe(*w.stored))
                               : "its weight is not stored as integers");
  if (!(range.min < range.max))
    return Verdict::refuse(
        fmt::format("its results are clamped to {} and {}", range.min, range.max));
  for (const float scale : weights->scale)
    if (!(scale > 0) || !std::isnormal(scale))
      return Verdict::refuse(
          fmt::format("its weight has scale {}, want a normal positive number", scale));
  if (w.numel() / w.shape[0] > kMaxWidth)
    return Verdict::refuse("a 32-bit accumulator may overflow");
  return check_native(program, op);
}

// Whether both ops are in one segment; true before there are segments.
bool are_together(const Program& program, const ProgramOp& a, const ProgramOp& b) {
  return std::all_of(program.segments.begin(), program.segments.end(), [&](const Segment& segment) {
    const auto holds = [&](const ProgramOp& op) {
      return std::any_of(segment.ops.begin(), segment.ops.end(),
                         [&](int index) { return &program.op(index) == &op; });
    };
    return holds(a) == holds(b);
  });
}

bool is_float(const Program& program, int index) {
  return program.tensor(index).dtype == DType::kFloat32;
}

// Accepts when only such ops read the integers.
Verdict check_readers(const Program& program, const ProgramOp& op, OpKind kind) {
  const int quantized = op.outputs[0];
  const std::vector<int> results = program.results();
  if (std::find(results.begin(), results.end(), quantized) != results.end())
    return Verdict::refuse("its floats are an output or a state of the program");
  for (const ProgramOp& reader : program.ops) {
    if (std::find(reader.inputs.begin(), reader.inputs.end(), quantized) == reader.inputs.end())
      continue;
    const Verdict verdict = check_reader(program, reader, quantized, kind);
    if (!verdict)
      return Verdict::refuse(
          fmt::format("{} cannot multiply its integers: {}", reader.name, verdict.reason()));
  }
  return Verdict::accept();
}

std::vector<int64_t> blocks_of(const ProgramOp& op, size_t rank) {
  return op.get(attr::kBlocks, std::vector<int64_t>(rank, 1));
}

// Rows of channels, in one block per image or in one block.
std::optional<RowBlocks> find_pixel_blocks(const Program& program, const ProgramOp& op) {
  std::vector<int64_t> shape = program.input(op, 0).shape, blocks = blocks_of(op, shape.size());
  if (!has_channels_last(shape) || blocks.size() != shape.size()) return std::nullopt;
  std::rotate(shape.begin() + 1, shape.begin() + 2, shape.end());
  std::rotate(blocks.begin() + 1, blocks.begin() + 2, blocks.end());
  const std::optional<RowBlocks> found = find_row_blocks(shape, blocks);
  return found && found->rows_per_block % (found->rows / shape[0]) == 0 ? found : std::nullopt;
}

// Checks for floats of one shape, and 8-bit integers.
Verdict check_operands(const Program& program, const ProgramOp& op) {
  const int quantized = op.outputs[0];
  const std::vector<int64_t>& shape = program.input(op, 0).shape;
  if (op.inputs.size() != 1 || !is_float(program, op.inputs[0]) || !is_float(program, quantized) ||
      program.tensor(quantized).shape != shape)
    return Verdict::refuse("it wants float32 of one shape");
  if (const Verdict fits = check_bytes(op); !fits) return fits;
  return shape.empty() ? Verdict::refuse("the input is a scalar") : Verdict::accept();
}

}  // namespace

Verdict check_fake_quantize(const Program& program, const ProgramOp& op) {
  if (const Verdict fits = check_operands(program, op); !fits) return fits;
  const std::vector<int64_t>& shape = program.input(op, 0).shape;
  const std::vector<int64_t> blocks = blocks_of(op, shape.size());
  if (!find_row_blocks(shape, blocks))
    return Verdict::refuse(fmt::format(
        "the scales are for {} blocks of {}, want one per tensor or per row", blocks, shape));
  return Verdict::accept();
}

Verdict check_whole_quantize(const Program& program, const ProgramOp& op) {
  if (const Verdict fits = check_fake_quantize(program, op); !fits) return fits;
  const std::vector<int64_t> blocks = op.get(attr::kBlocks);
  return std::all_of(blocks.begin(), blocks.end(), [](int64_t count) { return count == 1; })
             ? Verdict::accept()
             : Verdict::refuse("it has more than one scale");
}

Verdict check_row_quantize(const Program& program, const ProgramOp& op) {
  if (const Verdict fits = check_fake_quantize(program, op); !fits) return fits;
  return check_readers(program, op, "linear");
}

Verdict check_pixel_quantize(const Program& program, const ProgramOp& op) {
  if (const Verdict fits = check_operands(program, op); !fits) return fits;
  const std::vector<int64_t>& shape = program.input(op, 0).shape;
  const std::optional<RowBlocks> blocks = find_pixel_blocks(program, op);
  if (!blocks)
    return Verdict::refuse(fmt::format("the scales of {} are not one per tensor or image", shape));
  return check_readers(program, op, "conv");
}

const ProgramOp* find_row_quantize(const Program& program, const ProgramOp& op) {
  const bool is_linear = op.is("linear");
  if ((!is_linear && !op.is("conv")) || !op.has_input(0) || program.input(op, 0).is_constant())
    return nullptr;
  const ProgramOp* maker = find_maker(program, op.inputs[0]);
  if (maker == nullptr || !maker->is("fake_quantize_dynamic") || !are_together(program, *maker, op))
    return nullptr;
  if (!check_activations(program, *maker)) return nullptr;
  const Verdict verdict =
      is_linear ? check_row_quantize(program, *maker) : check_pixel_quantize(program, *maker);
  return verdict ? maker : nullptr;
}

RowQuantization row_quantization(const Program& program, const ProgramOp& op) {
  const std::vector<int64_t>& shape = program.input(op, 0).shape;
  return {dynamic_mapping(op), *find_row_blocks(shape, blocks_of(op, shape.size()))};
}

RowProductTerms row_product_terms(const Program& program, const ProgramOp& op) {
  const OutputRange range = post_range_of(op);
  const ProgramTensor& w = program.input(op, 1);
  RowProductTerms terms = {{}, {}, range.min, range.max};
  if (!has_weight_groups(w)) terms.weights = *find_integer_weights(w);
  terms.bias.assign(static_cast<size_t>(w.shape[0]), 0.0f);
  if (!op.has_input(2)) return terms;
  const Tensor bias = constant_data(program.input(op, 2)).contiguous();
  std::copy_n(bias.data<float>(), terms.bias.size(), terms.bias.begin());
  return terms;
}

Verdict check_row_product(const Program& program, const ProgramOp& op) {
  return find_row_quantize(program, op) != nullptr
             ? Verdict::accept()
             : Verdict::refuse("its input is not quantized at run time");
}

std::vector<CustomStep> row_quantize_steps(const Program& program, const ProgramOp& op,
                                           std::span<const Order>, Order, pthreadpool_t) {
  return {{{0}, row_quantization(program, op)}};
}

std::vector<CustomStep> pixel_quantize_steps(const Program& program, const ProgramOp& op,
                                             std::span<const Order>, Order, pthreadpool_t) {
  return {{{0}, RowQuantization{dynamic_mapping(op), *find_pixel_blocks(program, op)}}};
}

std::vector<CustomStep> fake_quantize_steps(const Program& program, const ProgramOp& op,
                                            std::span<const Order>, Order, pthreadpool_t) {
  return {{{0}, RowFakeQuantization{row_quantization(program, op)}}};
}

std::vector<CustomStep> row_linear_steps(const Program& program, const ProgramOp& op,
                                         std::span<const Order>, Order, pthreadpool_t pool) {
  const ProgramTensor& x = program.input(op, 0);
  const ProgramTensor& w = program.input(op, 1);
  const RowProductTerms terms = row_product_terms(program, op);
  const int64_t rows = x.numel() / x.shape.back();
  return {{{0}, has_weight_groups(w) ? RowProduct(terms, w, rows) : RowProduct(terms, rows, pool)}};
}

}  // namespace octet::xnnpack
