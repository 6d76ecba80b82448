// Turns Python scalars in additions and multiplications into constants, so that they can be
// observed.
#pragma once

#include "core/graph/graph.h"

namespace octet {

enum class ScalarOps { kFloatOnly, kAll };

// Each number operand of aten.add.Tensor and aten.mul.Tensor (in-place twins not included) becomes
// a 0-dim f32 buffer `_tensor_constant_0`, .... kFloatOnly leaves ops with a non-float result
// alone; kAll converts them too, as torchao does (it turns integer arithmetic into float). Returns
// the number of scalars converted.
int scalars_to_constants(Graph& graph, ScalarOps ops = ScalarOps::kFloatOnly);

// A number in the place of a SymInt, SymFloat or SymBool.

// Where a literal may stand, those who read `value` get `number` (int64_t, double or bool). Lists
// of ints that have no symbols left become plain ones.
void put_number(Value& value, const Argument& number);

}  // namespace octet
