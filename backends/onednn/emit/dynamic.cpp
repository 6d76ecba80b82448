// Emits activations quantized at run time, per token or per tensor, and the linears that read them.
//
//   fake_quantize_dynamic -> linear(x, w, b)     a custom loop (range, u8), a u8 x s8 product into
//                                                s32, a custom loop that scales it to reals
//   ... -> silu, gelu -> add(residual), mul(gate)    fused into that loop
//
// Ops that cannot use the integers read floats, which are made when the first such op needs them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/kernels/dynamic_rows.h"
#include "backends/onednn/builder/constants.h"
#include "backends/onednn/builder/conversions.h"
#include "backends/onednn/builder/dynamic_rows.h"
#include "backends/onednn/emit/arithmetic.h"
#include "backends/onednn/emit/byte_conv.h"
#include "backends/onednn/emit/emitters.h"
#include "backends/onednn/emit/post_ops.h"
#include "backends/onednn/library.h"

namespace octet::onednn {
namespace {

ColumnTerms column_terms(const SegmentBuilder& builder, const ProgramOp& op,
                         const IntegerWeights& weights, int64_t n, int64_t k) {
  ColumnTerms terms{std::vector<int32_t>(static_cast<size_t>(n), 0), weights.scale,
                    std::vector<float>(static_cast<size_t>(n), 0.0f)};
  if (op.inputs.size() > 2 && op.inputs[2] >= 0)
    terms.bias = real_values(builder.tensor(op.inputs[2]));
  const int8_t* values = weights.values.data<int8_t>();
  for (int64_t i = 0; i < n * k; ++i) terms.sums[static_cast<size_t>(i / k)] += values[i];
  return terms;
}

std::optional<RowFunction> find_row_function(const ProgramOp& unary) {
  static constexpr struct {
    const char* fn;
    RowFunction function;
  } kFunctions[] = {
      {"silu", RowFunction::kSilu},
      {"gelu", RowFunction::kGelu},
      {"gelu_tanh", RowFunction::kGeluTanh},
  };
  for (const auto& row : kFunctions)
    if (unary.get(attr::kFn) == row.fn) return row.function;
  return std::nullopt;
}

// Another tensor of the product's shape, as rows of floats.
std::optional<Place> find_rows(SegmentBuilder& builder, int tensor, const Dims& shape) {
  const Stored kept = builder.read(tensor);
  if (kept.shape != shape || kept.quant_params != QuantParams{} ||
      !same_strides(shape, kept.strides, row_major(shape)))
    return std::nullopt;
  return kept.place;
}

// Scales the product's sums to reals, fused with a following function and a sum or product with a
// tensor of the same shape.
void define_scaled(SegmentBuilder& builder, const ProgramOp& op, const DynamicRows& x,
                   const Stored& y, const ColumnTerms& columns) {
  const std::vector<Follower> followers = find_followers(builder, op);
  RowFinish finish;
  Place operand;
  size_t count = 0;
  if (count < followers.size() && followers[count].kind == Follower::Kind::kFunction)
    if (const std::optional<RowFunction> function = find_row_function(*followers[count].op)) {
      finish.function = *function;
      ++count;
    }
  if (count < followers.size() && followers[count].other >= 0 &&
      !clamp_of(*followers[count].op).is_needed())
    if (const std::optional<Place> rows = find_rows(builder, followers[count].other, y.shape)) {
      finish.operand = followers[count].kind == Follower::Kind::kAdd ? RowOperand::kSummand
                                                                     : RowOperand::kFactor;
      operand = *rows;
      ++count;
    }
  add_scale_rows(builder, x, y.place, columns, clamp_of(op), finish, operand);
  builder.define(absorb_followers(builder, op, {followers.data(), count}), y);
}

}  // namespace

void emit_fake_quantize_dynamic(SegmentBuilder& builder, const ProgramOp& op) {
  const DynamicMapping mapping = dynamic_mapping(op);
  if (const Verdict fits = check_bytes(op); !fits) throw Refusal{fits.reason()};
  const Dims& shape = builder.tensor(op.inputs[0]).shape;
  if (shape.empty()) throw Refusal{"the input is a scalar"};
  const Dims counts = op.get(attr::kBlocks, Dims(shape.size(), 1));
  const std::optional<RowBlocks> blocks = find_row_blocks(shape, counts);
  if (!blocks)
    throw Refusal{fmt::format("the scales are for {} blocks of {}, want one per tensor or per row",
                              counts, shape)};
  const Stored x = to_real(builder, op.inputs[0], row_major(shape));
  const auto quantized = std::make_shared<const DynamicRows>(add_quantize_rows(
      builder, x.place, blocks->rows, blocks->width, blocks->rows_per_block, mapping));
  builder.define_dynamic(op.outputs[0], quantized);
  builder.define_later(op.outputs[0], [&builder, quantized, shape] {
    const Stored y = builder.allocate(shape, {}, row_major(shape));
    add_dequantize_rows(builder, *quantized, y.place);
    return y;
  });
}

bool emit_dynamic_linear(SegmentBuilder& builder, const ProgramOp& op) {
  const ProgramTensor& wt = builder.tensor(op.inputs[1]);
  const ProgramTensor& yt = builder.tensor(op.outputs[0]);
  const DynamicRows* x = builder.find_dynamic(op.inputs[0]);
  if (x == nullptr || yt.dtype != DType::kFloat32 || x->width > kMostRowWidth) return false;
  const std::optional<IntegerWeights> weights = find_integer_weights(wt);
  if (!weights) return false;
  const int64_t n = wt.shape[0], k = wt.shape[1], m = x->rows;
  const ByteConvShape shape = linear_shape(m, k, n);
  if (has_byte_conv(shape)) {
    const Stored y = builder.allocate(yt.shape, {}, row_major(yt.shape));
    add_byte_conv(builder, "linear", shape, weights->values, {}, {}, x->values, y.place, nullptr);
    define_scaled(builder, op, *x, y, column_terms(builder, op, *weights, n, k));
    return true;
  }
  if (builder.saturation().may_saturate(op, weights->values)) return false;
  const dnnl::memory::desc source({m, k}, ElementType::u8, dnnl::memory::dims{k, 1});
  const dnnl::memory::desc plain({k, n}, ElementType::s8, dnnl::memory::dims{1, k});
  const dnnl::memory::desc any({k, n}, ElementType::s8, dnnl::memory::format_tag::any);
  const Stored y = builder.allocate(yt.shape, {}, row_major(yt.shape));
  const dnnl::memory::desc sums({m, n}, ElementType::s32, dnnl::memory::dims{n, 1});
  const dnnl::matmul::primitive_desc desc(cpu_engine(), source, any, sums, new_attributes());
  refuse_reference_kernel("linear", desc.impl_info_str());
  builder.add_primitive("linear", desc,
                        {{DNNL_ARG_WEIGHTS, desc.weights_desc(),
                          add_packed(builder, plain, weights->values, desc.weights_desc())},
                         {DNNL_ARG_SRC, source, x->values},
                         {DNNL_ARG_DST, sums, y.place}});
  define_scaled(builder, op, *x, y, column_terms(builder, op, *weights, n, k));
  return true;
}

}  // namespace octet::onednn
