// Defines the quantizer of the Acme NPU.
#pragma once

#include <memory>

#include "quantizers/registry.h"

namespace acme {

// Quantizes what the NPU runs in int8: convolutions, linear layers, additions, max pooling,
// flattening, sigmoid and the custom op. Other ops stay float.
std::unique_ptr<octet::Quantizer> make_quantizer(const octet::QuantizerOptions& options);

// Registers the quantizers, the observer, the derive function and the custom kernel.
void register_all();

}  // namespace acme
