// An image on its way in: three planes of floats to interleaved bytes in one pass.
#pragma once

#include "backends/onednn/form.h"
#include "backends/onednn/kernels/loop.h"

namespace octet::onednn {

// f32 [N, 3, H, W] row-major to u8 or s8 channels-last. Arguments: from, to.
Loop image_loop(const Stored& from, const Stored& to);

}  // namespace octet::onednn
