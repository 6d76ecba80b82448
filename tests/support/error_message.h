// The message of an Error, for tests of bad input.
#pragma once

#include <string>

#include "core/base/error.h"

namespace octet::test {

// The message of the Error that `action` throws, or "no error".
template <typename Action>
std::string error_message(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace octet::test
