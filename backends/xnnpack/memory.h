// Allocates XNNPACK's packed weights and intermediates: large blocks in areas with huge pages,
// because page faults would take a tenth of a model's load time.
#pragma once

#include "backends/xnnpack/functions.h"

namespace octet::xnnpack {

// For xnn_initialize; lives as long as the process. Small blocks use malloc.
const xnn_allocator* memory_source();

// Returns and clears whether an allocation failed in this thread. XNNPACK got a substitute block
// then, so its result must be discarded.
bool take_failure();

}  // namespace octet::xnnpack
