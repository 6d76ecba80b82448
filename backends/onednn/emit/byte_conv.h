// Steps of the convolutions by tiles of bytes (backends/onednn/bytes).
#pragma once

#include "backends/onednn/builder/segment_builder.h"
#include "backends/onednn/bytes/conv.h"

namespace octet::onednn {

// Requires has_byte_conv(shape). residual: of y's shape, u8; for kSum alone.
void add_byte_conv(SegmentBuilder& builder, const char* what, const ByteConvShape& shape,
                   const Tensor& weights, const ByteConvOutput& output, ByteRange range,
                   const Place& x, const Place& y, const Place* residual);

// Requires has_byte_depthwise(shape). output: kBytes or kReals.
void add_byte_depthwise(SegmentBuilder& builder, const ByteConvShape& shape, const Tensor& weights,
                        const ByteConvOutput& output, const Place& x, const Place& y);

}  // namespace octet::onednn
