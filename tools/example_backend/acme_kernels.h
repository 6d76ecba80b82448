// Declares the custom kernel, which runs the custom op in a lowered program. Needs no LibTorch.
#pragma once

#include "lowering/program/custom_kernel.h"

namespace acme {

// acme.swish.default: x * sigmoid(beta * x), float32.
void run_swish(const octet::CustomCall& call);

}  // namespace acme
