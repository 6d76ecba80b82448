// The rows.
#include "lowering/fuse/op_table.h"

#include <algorithm>

namespace octet {
namespace {

constexpr bool kMacs = true;
constexpr bool kNoMacs = false;

constexpr OpRow kOpRows[] = {
    {"conv", IntegerInputs::kFirstTwo, PostOps::kClamp, Nature::kCompute, kMacs},
    {"conv_transpose", IntegerInputs::kFirstTwo, PostOps::kClamp, Nature::kCompute, kMacs},
    {"linear", IntegerInputs::kFirstTwo, PostOps::kClamp, Nature::kCompute, kMacs},
    {"matmul", IntegerInputs::kFirstTwo, PostOps::kClamp, Nature::kCompute, kMacs},
    {"add", IntegerInputs::kFirstTwo, PostOps::kClamp, Nature::kCompute, kNoMacs},
    {"sub", IntegerInputs::kFirstTwo, PostOps::kClamp, Nature::kCompute, kNoMacs},
    {"mul", IntegerInputs::kFirstTwo, PostOps::kClamp, Nature::kCompute, kNoMacs},
    {"div", IntegerInputs::kFirstTwo, PostOps::kClamp, Nature::kCompute, kNoMacs},
    {"minimum", IntegerInputs::kFirstTwo, PostOps::kClamp, Nature::kCompute, kNoMacs},
    {"maximum", IntegerInputs::kFirstTwo, PostOps::kClamp, Nature::kCompute, kNoMacs},
    {"avg_pool", IntegerInputs::kFirst, PostOps::kClamp, Nature::kCompute, kNoMacs},
    {"adaptive_avg_pool", IntegerInputs::kFirst, PostOps::kClamp, Nature::kCompute, kNoMacs},
    {"mean", IntegerInputs::kFirst, PostOps::kClamp, Nature::kCompute, kNoMacs},
    {"reduce", IntegerInputs::kFirst, PostOps::kClamp, Nature::kCompute, kNoMacs},
    {"clamp", IntegerInputs::kFirst, PostOps::kNone, Nature::kCompute, kNoMacs},
    {"unary", IntegerInputs::kFirst, PostOps::kNone, Nature::kCompute, kNoMacs},
    {"prelu", IntegerInputs::kFirst, PostOps::kNone, Nature::kCompute, kNoMacs},
    {"softmax", IntegerInputs::kFirst, PostOps::kNone, Nature::kCompute, kNoMacs},
    {"layer_norm", IntegerInputs::kFirst, PostOps::kNone, Nature::kCompute, kNoMacs},
    {"rms_norm", IntegerInputs::kFirst, PostOps::kNone, Nature::kCompute, kNoMacs},
    {"batch_norm", IntegerInputs::kFirst, PostOps::kNone, Nature::kCompute, kNoMacs},
    {"group_norm", IntegerInputs::kFirst, PostOps::kNone, Nature::kCompute, kNoMacs},
    {"upsample", IntegerInputs::kFirst, PostOps::kNone, Nature::kCompute, kNoMacs},
    {"log_softmax", IntegerInputs::kFirst, PostOps::kNone, Nature::kCompute, kNoMacs},
    {"grid_sample", IntegerInputs::kFirst, PostOps::kNone, Nature::kCompute, kNoMacs},
    {"embedding_bag", IntegerInputs::kFirst, PostOps::kNone, Nature::kCompute, kNoMacs},
    {"im2col", IntegerInputs::kFirst, PostOps::kNone, Nature::kCompute, kNoMacs},
    {"col2im", IntegerInputs::kFirst, PostOps::kNone, Nature::kCompute, kNoMacs},
    {"embedding", IntegerInputs::kFirst, PostOps::kNone, Nature::kCompute, kNoMacs},
    {"max_pool", IntegerInputs::kFirst, PostOps::kNone, Nature::kMovement, kNoMacs},
    {"reshape", IntegerInputs::kFirst, PostOps::kNone, Nature::kMovement, kNoMacs},
    {"permute", IntegerInputs::kFirst, PostOps::kNone, Nature::kMovement, kNoMacs},
    {"slice", IntegerInputs::kFirst, PostOps::kNone, Nature::kMovement, kNoMacs},
    {"expand", IntegerInputs::kFirst, PostOps::kNone, Nature::kMovement, kNoMacs},
    {"copy", IntegerInputs::kFirst, PostOps::kNone, Nature::kMovement, kNoMacs},
    {"gather", IntegerInputs::kFirst, PostOps::kNone, Nature::kMovement, kNoMacs},
    {"index", IntegerInputs::kFirst, PostOps::kNone, Nature::kMovement, kNoMacs},
    {"flip", IntegerInputs::kFirst, PostOps::kNone, Nature::kMovement, kNoMacs},
    // only with value 0, see fuse.cpp
    {"pad", IntegerInputs::kFirst, PostOps::kNone, Nature::kMovement, kNoMacs},
    {"cat", IntegerInputs::kAll, PostOps::kNone, Nature::kMovement, kNoMacs},
    {"quantize", IntegerInputs::kNone, PostOps::kNone, Nature::kConversion, kNoMacs},
    {"dequantize", IntegerInputs::kFirst, PostOps::kNone, Nature::kConversion, kNoMacs},
    {"requantize", IntegerInputs::kFirst, PostOps::kNone, Nature::kConversion, kNoMacs},
    {"where", IntegerInputs::kNone, PostOps::kNone, Nature::kFloat, kNoMacs},
    {"rotary", IntegerInputs::kNone, PostOps::kNone, Nature::kFloat, kNoMacs},
    {"binary", IntegerInputs::kNone, PostOps::kNone, Nature::kFloat, kNoMacs},
    {"adaptive_max_pool", IntegerInputs::kNone, PostOps::kNone, Nature::kFloat, kNoMacs},
    {"index_put", IntegerInputs::kNone, PostOps::kNone, Nature::kFloat, kNoMacs},
    {"scatter", IntegerInputs::kNone, PostOps::kNone, Nature::kFloat, kNoMacs},
    {"sort", IntegerInputs::kNone, PostOps::kNone, Nature::kFloat, kNoMacs},
    {"topk", IntegerInputs::kNone, PostOps::kNone, Nature::kFloat, kNoMacs},
    {"arg_reduce", IntegerInputs::kNone, PostOps::kNone, Nature::kFloat, kNoMacs},
    {"cumulative", IntegerInputs::kNone, PostOps::kNone, Nature::kFloat, kNoMacs},
    {"cast", IntegerInputs::kNone, PostOps::kNone, Nature::kFloat, kNoMacs},
    {"fake_quantize_dynamic", IntegerInputs::kNone, PostOps::kNone, Nature::kFloat, kNoMacs},
    {"recurrent", IntegerInputs::kNone, PostOps::kNone, Nature::kFloat, kMacs},
    {"nonzero", IntegerInputs::kNone, PostOps::kNone, Nature::kFloat, kNoMacs},
    {"size", IntegerInputs::kNone, PostOps::kNone, Nature::kFloat, kNoMacs},
    {"custom", IntegerInputs::kNone, PostOps::kNone, Nature::kFloat, kNoMacs},
};

}  // namespace

size_t OpRow::integer_input_count(size_t count) const {
  switch (integer_inputs) {
    case IntegerInputs::kNone:
      return 0;
    case IntegerInputs::kFirst:
      return std::min<size_t>(count, 1);
    case IntegerInputs::kFirstTwo:
      return std::min<size_t>(count, 2);
    case IntegerInputs::kAll:
      return count;
  }
  return 0;
}

std::span<const OpRow> op_table() { return kOpRows; }

const OpRow* find_op_row(const std::string& kind) {
  for (const OpRow& row : kOpRows)
    if (kind == row.kind) return &row;
  return nullptr;
}

}  // namespace octet
