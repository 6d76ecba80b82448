// The ops of this backend: one row each, with what it checks and how it becomes steps.
#pragma once

#include <string>

#include "backends/onednn/builder.h"
#include "backends/onednn/kernels/byte_loops.h"
#include "core/base/report.h"

namespace octet::onednn {

struct OpRow {
  const char* kind;
  // cheap, with the reason in the user's words
  Verdict (*check)(const Program& program, const ProgramOp& op);
  // throws Refusal or dnnl::error when the library has no kernel
  void (*emit)(SegmentBuilder& builder, const ProgramOp& op);
};

// Null for an unknown kind.
const OpRow* find_op_row(const std::string& kind);

// Turns the ops of the segment into steps, outputs included. Throws Refusal and dnnl::error.
void emit_segment(SegmentBuilder& builder, const Program& program, const Segment& segment);

void emit_conv(SegmentBuilder& builder, const ProgramOp& op);
void emit_conv_transpose(SegmentBuilder& builder, const ProgramOp& op);
// By the tiles of bytes (backends/onednn/bytes/tiles.h), on CPUs where those are the best kernels;
// false when it is in floats, or on other CPUs.
bool emit_transposed_by_byte_tiles(SegmentBuilder& builder, const ProgramOp& op);
void emit_linear(SegmentBuilder& builder, const ProgramOp& op);
void emit_matmul(SegmentBuilder& builder, const ProgramOp& op);
void emit_fake_quantize_dynamic(SegmentBuilder& builder, const ProgramOp& op);
// linear on integers, when the input was quantized at run time in here and the weight is stored as
// integers; false when it is not so.
bool emit_dynamic_linear(SegmentBuilder& builder, const ProgramOp& op);
// The same with scales for groups within a row of weights.
bool emit_dynamic_group_linear(SegmentBuilder& builder, const ProgramOp& op);
// linear on few rows of floats with weights stored as integers; false when it is not so.
bool emit_weight_only_linear(SegmentBuilder& builder, const ProgramOp& op);
void emit_elementwise(SegmentBuilder& builder, const ProgramOp& op);  // add, sub, mul
void emit_binary(SegmentBuilder& builder, const ProgramOp& op);       // div, minimum, maximum
void emit_prelu(SegmentBuilder& builder, const ProgramOp& op);
void emit_clamp(SegmentBuilder& builder, const ProgramOp& op);
void emit_unary(SegmentBuilder& builder, const ProgramOp& op);
// quantize, dequantize, requantize
void emit_change_of_quantity(SegmentBuilder& builder, const ProgramOp& op);
void emit_max_pool(SegmentBuilder& builder, const ProgramOp& op);
void emit_avg_pool(SegmentBuilder& builder, const ProgramOp& op);
void emit_adaptive_avg_pool(SegmentBuilder& builder, const ProgramOp& op);
void emit_mean(SegmentBuilder& builder, const ProgramOp& op);
void emit_reduce(SegmentBuilder& builder, const ProgramOp& op);
void emit_group_norm(SegmentBuilder& builder, const ProgramOp& op);
void emit_recurrent(SegmentBuilder& builder, const ProgramOp& op);
void emit_upsample(SegmentBuilder& builder, const ProgramOp& op);
void emit_softmax(SegmentBuilder& builder, const ProgramOp& op);
void emit_layer_norm(SegmentBuilder& builder, const ProgramOp& op);
void emit_batch_norm(SegmentBuilder& builder, const ProgramOp& op);
void emit_reshape(SegmentBuilder& builder, const ProgramOp& op);
void emit_permute(SegmentBuilder& builder, const ProgramOp& op);
void emit_slice(SegmentBuilder& builder, const ProgramOp& op);
void emit_expand(SegmentBuilder& builder, const ProgramOp& op);
void emit_cat(SegmentBuilder& builder, const ProgramOp& op);
void emit_pad(SegmentBuilder& builder, const ProgramOp& op);
void emit_copy(SegmentBuilder& builder, const ProgramOp& op);

// A function of floats as oneDNN's eltwise; nullopt when it has none.
struct Eltwise {
  dnnl::algorithm algorithm;
  float alpha;
  float beta;
};
std::optional<Eltwise> find_eltwise(const ProgramOp& unary);

// One scale, or a zero point other than 0, of an argument.
void add_scale(SegmentBuilder& builder, int argument, float scale, dnnl::primitive_attr& attributes,
               std::vector<Argument>& arguments);
void add_zero_point(SegmentBuilder& builder, int argument, int zero_point,
                    dnnl::primitive_attr& attributes, std::vector<Argument>& arguments);

// The post-ops of an op.
Clamp clamp_of(const ProgramOp& op);
// Appends the clamp as a post-op that works on real / unit, unless the range of `quantity` implies
// it.
void append_clamp(dnnl::post_ops& post_ops, const Clamp& clamp, const Quantity& quantity,
                  double unit);
// A float result becomes the op's output: defined as it is, or quantized.
void define_real(SegmentBuilder& builder, int output, const Stored& real);

// Plan of the arithmetic: whether it runs on integers, with all scales folded into one per output
// channel, and the source zero point into the bias when `fold_zero_point` (every output reads the
// same number of real inputs: no padding).
struct Arithmetic {
  bool is_integer = false;
  Quantity x;  // what the kernel reads
  Quantity y;  // what the kernel writes
  // integers: x.scale * w.scale / y.scale, size 1 or one per output channel
  std::vector<float> scale;
  // integers: in units of y's scale; floats: real; empty when there is none
  std::vector<float> bias;
  double unit = 1;  // integers: y's scale; a post-op sees real / unit
};

// Which kernel sums the products: oneDNN's, which on some CPUs cut sums off at 16 bits (such ops
// are planned in floats then), or one of 32 bits.
enum class Sums { kOfOneDnn, kExact };

// `channels`: of the output. To fold, they must be the weight's first dimension.
Arithmetic plan_arithmetic(SegmentBuilder& builder, const ProgramOp& op, int64_t channels,
                           bool fold_zero_point, Sums sums = Sums::kOfOneDnn);

// The same arithmetic in steps of r, less its zero point, so that r's bytes can be added. channels:
// of the output.
Arithmetic in_steps_of(const Quantity& r, Arithmetic plan, int64_t channels);

// The op's constant weights, laid out as `plain` says: integers where the arithmetic is on
// integers, else in real units; in the layout `packed`.
Place pack_weights(SegmentBuilder& builder, int weights, const dnnl::memory::desc& plain,
                   const dnnl::memory::desc& packed);

// Attributes of an integer op: weight scales with `mask`, destination (and, unless folded, source)
// zero points, the clamp. Appends their arguments.
dnnl::primitive_attr integer_attributes(SegmentBuilder& builder, const Arithmetic& arithmetic,
                                        int mask, bool fold_zero_point, const Clamp& clamp,
                                        std::vector<Argument>& arguments);

}  // namespace octet::onednn
