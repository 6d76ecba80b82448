// The opened oneDNN library: its version and its only CPU engine.
#pragma once

#include <map>
#include <string>

#include "backends/onednn/functions.h"

namespace octet::onednn {

// {"onednn": "3.2.0"}. Throws Error when the loaded library is older than 3.2 or a later major
// version than 3, or when its CPU kernels do not use OpenMP.
std::map<std::string, std::string> library_versions();

// Shared by every segment of the process; thread-safe.
const dnnl::engine& cpu_engine();

}  // namespace octet::onednn
