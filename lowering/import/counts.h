// What the rows of ops share whose result has as many elements as its input's values say. Used by
// the import only.
#pragma once

#include "lowering/import/steps.h"

namespace octet {

struct Places {
  int rows = -1;   // [elements of the tensor, its dimensions], i64: where it is not 0, in order
  int count = -1;  // i64 without dimensions: how many of them there are
};
Places find_places(Steps& s, const Node& node, int x);
// The first `count` of them, a number that the graph calls `size`; -1 when refused.
int first_places(Steps& s, const Node& node, int x, const SizeExpr& size);
// Column d of rows, one number for each.
int column(Steps& s, int rows, int64_t d);

}  // namespace octet
