// The quantizer of the Acme NPU.
#pragma once

#include <memory>

#include "quantizers/registry.h"

namespace acme {

// What the NPU runs in int8: convolutions, linear layers, additions, max pooling, sigmoid, the
// custom op; the rest stays float.
std::unique_ptr<octet::Quantizer> make_quantizer(const octet::QuantizerOptions& options);

// Makes the quantizer, its observer, its derive function, the kernel of the custom op and the
// backend known by name.
void register_all();

}  // namespace acme
