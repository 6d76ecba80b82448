// What a kernel gives to be run: a function of the addresses of its arguments, everything else
// settled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace octet::onednn {

// Gets the addresses in the order that the kernel's header names.
using Loop = std::function<void(std::byte* const* arguments)>;

// A loop that needs memory of its own, as one more argument.
struct ScratchLoop {
  Loop loop;
  int64_t scratch_bytes = 0;     // none: the argument is left out
  const char* kernel = nullptr;  // its name
};

}  // namespace octet::onednn
