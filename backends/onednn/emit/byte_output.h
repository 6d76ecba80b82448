// The arithmetic of an op in the form that own kernels on bytes take it.
#pragma once

#include <cstddef>
#include <optional>

#include "backends/onednn/bytes/output.h"
#include "backends/onednn/emit/arithmetic.h"
#include "backends/onednn/kernels/byte_scales.h"

namespace octet::onednn {

// The arithmetic of `plan` as scales of bytes, into steps of `written`; nullopt when a sum might
// not fit into 32 bits. residual: what is added, null for nothing. w: the weights' shape, outputs
// first.
std::optional<ByteScales> byte_scales(const Arithmetic& plan, const QuantParams& written,
                                      const Clamp& clamp, const QuantParams* residual,
                                      const Dims& w);

// Floats: real_output(). Bytes: kBytes, or kSum with a residual, as byte_scales() has it, fused, or
// in oneDNN's steps; nullopt when a sum might not fit into 32 bits. w: the weights' shape, outputs
// first.
std::optional<ByteConvOutput> byte_output(const Arithmetic& plan, const QuantParams& written,
                                          const Clamp& clamp, const QuantParams* residual,
                                          const Dims& w, bool is_fused);

// kReals: as `plan` folds scales and bias, then `clamp`.
ByteConvOutput real_output(const Arithmetic& plan, const Clamp& clamp, size_t outputs);

}  // namespace octet::onednn
