// What runs the custom op in a lowered program. Free of torch.
#pragma once

#include "lowering/program/custom_kernel.h"

namespace acme {

// acme.swish.default: x * sigmoid(beta * x), float32.
void run_swish(const octet::CustomCall& call);

}  // namespace acme
