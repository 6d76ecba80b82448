// A program with sizes that are known only when it runs. Needs no LibTorch.
#pragma once

#include <string>

#include "lowering/program/program.h"

namespace octet {

// x f32[4, 3], mask b8[4] -> chosen f32[u0, 3]: twice the rows of x where the mask is set; sum
// f32[3]: their sum. u0 is 0 to 4; what follows the count is on the backend. open: x has n rows
// instead of four, n from 1 to 9.
Program counted_rows(const std::string& backend, bool open = false);

}  // namespace octet
