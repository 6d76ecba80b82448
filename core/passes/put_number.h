// A number in the place of a SymInt, SymFloat or SymBool.
#pragma once

#include "core/graph/graph.h"

namespace octet {

// Where a literal may stand, those who read `value` get `number` (int64_t, double or bool). Lists
// of ints that have no symbols left become plain ones.
void put_number(Value& value, const Argument& number);

}  // namespace octet
