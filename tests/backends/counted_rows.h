// A program with sizes that only a run decides. Free of torch.
#pragma once

#include <string>

#include "lowering/program/program.h"

namespace octet {

// x f32[4, 3], mask b8[4] -> chosen f32[u0, 3]: twice the rows of x where the mask is set; sum
// f32[3]: of these. u0 from 0 to 4; the rest is on the backend. open: the four rows are n, from 1
// to 9.
Program counted_rows(const std::string& backend, bool open = false);

}  // namespace octet
