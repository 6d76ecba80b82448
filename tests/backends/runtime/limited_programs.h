// Programs that are small as files but need much memory, for the tests of limits.
#pragma once

#include "lowering/program/program.h"

namespace octet {

// yes b8[], x f32[1] -> `count` consecutive conds. Both branches of each are the same body: the
// maximum of x expanded to `elements`, f32[1].
Program conds_over_one_body(int count, int64_t elements);
// As above with two conds, whose body has two conds over its body, and so on, `depth` times.
Program conds_in_conds(size_t depth, int64_t elements);
// x f32[1] -> `count` times neg, each in a separate segment.
Program chain_of_segments(int count, const std::string& backend);

}  // namespace octet
