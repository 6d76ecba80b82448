// Allocates the scratch memory of the loops and adds them.
#include "backends/onednn/emit/byte_conv.h"

#include <utility>
#include <vector>

#include "backends/onednn/bytes/depthwise.h"
#include "core/base/error.h"

namespace octet::onednn {
namespace {

// What proves the op in place of a loop: its weights are not packed.
void add_empty_loop(SegmentBuilder& builder, const char* what, const Place& x, const Place& y) {
  builder.add_loop(what, [](std::byte* const*) {}, {x, y});
}

Place allocate_scratch(SegmentBuilder& builder, const ScratchLoop& loop) {
  return builder.allocate({loop.scratch_bytes}, {ElementType::u8, 1, 0}, {1}).place;
}

}  // namespace

void add_byte_conv(SegmentBuilder& builder, const char* what, const ByteConvShape& shape,
                   const Tensor& weights, const ByteConvOutput& output, ByteRange range,
                   const Place& x, const Place& y, const Place* residual) {
  OCTET_ASSERT(has_byte_conv(shape) &&
                   (residual != nullptr) == (output.output == TileOutput::kSum) &&
                   (shape.segments == 1 || output.output == TileOutput::kReals),
               "a shape that the kernel does not take");
  if (builder.purpose() == SegmentBuilder::Purpose::kProve)
    return add_empty_loop(builder, what, x, y);
  ScratchLoop loop = byte_conv_loop(shape, weights, output, range);
  std::vector<Place> places = {x, y};
  if (loop.scratch_bytes > 0) places.push_back(allocate_scratch(builder, loop));
  if (residual != nullptr) places.push_back(*residual);
  builder.add_loop(what, std::move(loop.loop), places, loop.kernel);
}

void add_byte_depthwise(SegmentBuilder& builder, const ByteConvShape& shape, const Tensor& weights,
                        const ByteConvOutput& output, const Place& x, const Place& y) {
  OCTET_ASSERT(has_byte_depthwise(shape), "a depthwise shape that the kernel does not take");
  constexpr const char* kWhat = "depthwise convolution";
  if (builder.purpose() == SegmentBuilder::Purpose::kProve)
    return add_empty_loop(builder, kWhat, x, y);
  ScratchLoop loop = byte_depthwise_loop(shape, weights, output);
  builder.add_loop(kWhat, std::move(loop.loop), {x, y, allocate_scratch(builder, loop)},
                   loop.kernel);
}

}  // namespace octet::onednn
