// Replaces scalars in graphs: Python scalars by constants that can be observed, and symbolic values
// by literals.
#pragma once

#include "core/graph/graph.h"

namespace octet {

enum class ScalarOps { kFloatOnly, kAll };

// Replaces each number operand of aten.add.Tensor and aten.mul.Tensor (not of in-place variants) by
// a 0-dim f32 buffer `_tensor_constant_0`, .... kFloatOnly skips ops with a non-float result; kAll
// converts them too, as torchao does (it turns integer arithmetic into float). Returns the number
// of scalars converted.
int scalars_to_constants(Graph& graph, ScalarOps ops = ScalarOps::kFloatOnly);

// Replaces uses of `value` (a SymInt, SymFloat or SymBool) by a literal (int64_t, double or bool),
// wherever a literal is allowed. Lists of ints without symbols left become plain ones.
void put_number(Value& value, const Argument& number);

}  // namespace octet
