// Handles exceptions, structs of older callers and null addresses for the files that implement
// the C interface.
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "backends/runtime/octet.h"
#include "backends/runtime/session.h"
#include "core/base/error.h"
#include "lowering/program/symbols.h"

struct octet_model {
  octet::Session session;
  // by tensor index; empty for all but inputs and outputs
  std::vector<octet::ShapeRange> shapes = {};
  mutable std::deque<std::string> warnings = {};  // reported so far; their addresses stay valid
};

namespace octet {

// Stores the exception that is being handled as the thread's last error.
octet_status note_exception();
void forget_error();

// Runs `action` and stores its exception as the thread's last error.
template <typename Action>
octet_status guarded(const Action& action) {
  try {
    forget_error();
    action();
    return OCTET_OK;
  } catch (...) {
    return note_exception();
  }
}

// Throws Error for a null pointer.
void require(const void* pointer, const char* name);

// Copies the members that the caller's header has; later members are 0.
template <typename Struct>
Struct known_part(const Struct* given, const char* name) {
  Struct whole{};
  if (given == nullptr) return whole;
  if (given->size < sizeof(given->size))
    throw Error("octet", name,
                fmt::format("its member size is {}, want sizeof({})", given->size, name));
  std::memcpy(&whole, given, std::min(given->size, sizeof(Struct)));
  return whole;
}

}  // namespace octet
