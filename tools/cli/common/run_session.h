// A lowered program on LibTorch's tensors.
#pragma once

#include <vector>

#include <ATen/core/ivalue.h>

#include "backends/runtime/session.h"

namespace octet {

// Runs the session once. inputs: one for each of the exported program's; what is no tensor was
// fixed when the program was lowered and is passed over. Outputs have memory of their own. Throws
// what Session::run throws.
std::vector<c10::IValue> run_session(Session& session, const std::vector<c10::IValue>& inputs);

}  // namespace octet
