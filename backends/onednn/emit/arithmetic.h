// Folds the scales, zero points, biases and clamps of ops before the run.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backends/onednn/builder/segment_builder.h"
#include "backends/onednn/form.h"

namespace octet::onednn {

// A function of floats as a oneDNN eltwise; nullopt when oneDNN lacks it.
struct Eltwise {
  dnnl::algorithm algorithm;
  float alpha;
  float beta;
};
std::optional<Eltwise> find_eltwise(const ProgramOp& unary);

// Adds one scale, or a nonzero zero point, to an argument.
void add_scale(SegmentBuilder& builder, int argument, float scale, dnnl::primitive_attr& attributes,
               std::vector<Argument>& arguments);
void add_zero_point(SegmentBuilder& builder, int argument, int zero_point,
                    dnnl::primitive_attr& attributes, std::vector<Argument>& arguments);

// The post-ops of an op.
Clamp clamp_of(const ProgramOp& op);
// Appends the clamp as a post-op that works on real / unit, unless the range of `quant_params`
// implies it.
void append_clamp(dnnl::post_ops& post_ops, const Clamp& clamp, const QuantParams& quant_params,
                  double unit);
// Attributes with the op's clamp as the only post-op, for primitives that write floats.
dnnl::primitive_attr clamp_attributes(const ProgramOp& op);
// Defines the op's output by a float result of either type, quantizing it if necessary.
void define_real(SegmentBuilder& builder, int output, const Stored& real);
// Defines it by integers, unchanged, or by a float result.
void define_result(SegmentBuilder& builder, int output, const Stored& result);

// How an op computes. With integers, all scales are folded into one per output channel, and with
// `fold_zero_point` the source zero point is folded into the bias. Folding requires that every
// output reads the same number of real inputs (no padding).
struct Arithmetic {
  bool is_integer = false;
  QuantParams x;  // what the kernel reads
  QuantParams y;  // what the kernel writes
  // integers: x.scale * w.scale / y.scale, size 1 or one per output channel
  std::vector<float> scale;
  // integers: in units of y's scale; floats: real; empty when absent
  std::vector<float> bias;
  double unit = 1;  // integers: y's scale; a post-op sees real / unit
};

// Which kernel sums the products: oneDNN's, which on some CPUs saturates at 16 bits (such ops are
// then planned in floats), or one with exact 32-bit sums.
enum class Sums { kOfOneDnn, kExact };

// channels: of the output. To fold, they must be the weight's first dimension.
Arithmetic plan_arithmetic(SegmentBuilder& builder, const ProgramOp& op, int64_t channels,
                           bool fold_zero_point, Sums sums = Sums::kOfOneDnn);

// Rescales `plan` to steps of r and removes r's zero point, so that r's bytes can be added.
// channels: of the output.
Arithmetic in_steps_of(const QuantParams& r, Arithmetic plan, int64_t channels);

// Packs the op's constant weights from the layout `plain` into `packed`: as integers if the
// arithmetic uses integers, else as reals.
Place pack_weights(SegmentBuilder& builder, int weights, const dnnl::memory::desc& plain,
                   const dnnl::memory::desc& packed);

// Returns the attributes of an integer op: weight scales with `mask`, zero points of the
// destination and, unless folded, of the source, and the clamp. Appends their arguments.
dnnl::primitive_attr integer_attributes(SegmentBuilder& builder, const Arithmetic& arithmetic,
                                        int mask, bool fold_zero_point, const Clamp& clamp,
                                        std::vector<Argument>& arguments);

}  // namespace octet::onednn
