// The options of `octet lower`, which lowers a q/dq program to an .octet program for backends,
// and of octet.lower in Python.
#pragma once

#include <string>
#include <vector>

#include "lowering/lower.h"
#include "tools/cli/common/options.h"

namespace octet {

struct LowerRequest {
  std::string model, backend, output;
  LowerOptions options;
  bool explain = false;
  std::vector<std::string> libraries;
};

Options options_of(LowerRequest& request);

}  // namespace octet
