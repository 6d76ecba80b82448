// Whose choices a quantizer makes.
#pragma once

namespace octet {

// Octet's own, or the peer's with all their defects (see README.md for the differences).
enum class Compat { kNone, kTorchao };

}  // namespace octet
