// Whose choices a quantizer makes.
#pragma once

namespace octet {

// Octet's own, or torchao's with all their defects (annotate/DIFFERENCES.md).
enum class Compat { kNone, kTorchao };

}  // namespace octet
