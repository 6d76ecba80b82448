// What is known of each op kind, for fusing: which inputs may be integers, whether it clamps,
// whether it only moves elements.
#pragma once

#include <span>
#include <string>

namespace octet {

// Which inputs may be integer tensors with qparams. They become integers together or not at all.
enum class IntegerInputs { kNone, kFirst, kFirstTwo, kAll };
enum class PostOps { kNone, kClamp };  // kClamp: attributes post_min and post_max
enum class Nature {
  kCompute,  // reads integers as reals, computes, may write integers with other qparams
  // the output's elements are elements of the first input: q(f(x)) = f(q(x)) and f(dq(x)) =
  // dq(f(x))
  kMovement,
  kConversion,  // quantize, dequantize, requantize
  kFloat,       // neither reads nor writes quantized integers
};

struct OpRow {
  const char* kind;
  IntegerInputs integer_inputs;
  PostOps post_ops;
  Nature nature;
  bool has_macs;  // counts multiply-accumulates: conv, conv_transpose, linear, matmul, recurrent

  // How many leading inputs the rule covers, of an op with `count` inputs.
  size_t integer_input_count(size_t count) const;
};

std::span<const OpRow> op_table();
// Null for a kind that is not in the vocabulary of program.h.
const OpRow* find_op_row(const std::string& kind);

}  // namespace octet
