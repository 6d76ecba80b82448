// Scales, zero points, biases and clamps of ops, folded ahead of the run.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backends/onednn/builder/segment_builder.h"
#include "backends/onednn/form.h"

namespace octet::onednn {

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
// Appends the clamp as a post-op that works on real / unit, unless the range of
// `quant_params` implies it.
void append_clamp(dnnl::post_ops& post_ops, const Clamp& clamp, const QuantParams& quant_params,
                  double unit);
// A float result becomes the op's output: defined as it is, or quantized.
void define_real(SegmentBuilder& builder, int output, const Stored& real);

// Plan of the arithmetic: whether it runs on integers, with all scales folded into one per output
// channel, and the source zero point into the bias when `fold_zero_point` (every output reads the
// same number of real inputs: no padding).
struct Arithmetic {
  bool is_integer = false;
  QuantParams x;  // what the kernel reads
  QuantParams y;  // what the kernel writes
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

// `plan` in steps of r, less its zero point, so that r's bytes can be added. channels:
// of the output.
Arithmetic in_steps_of(const QuantParams& r, Arithmetic plan, int64_t channels);

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
