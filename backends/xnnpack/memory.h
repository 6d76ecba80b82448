// The memory that XNNPACK takes for packed weights and intermediates: large blocks side by side in
// areas with huge pages, as touching a model's memory for the first time page by page is a tenth of
// its load time.
#pragma once

#include "backends/xnnpack/functions.h"

namespace octet::xnnpack {

// For xnn_initialize; lives as long as the process. Small blocks come from malloc.
const xnn_allocator* memory_source();

// Whether one of these blocks could not be had since the last such question of this thread. XNNPACK
// got another for it, and what it did is to be thrown away.
bool take_failure();

}  // namespace octet::xnnpack
