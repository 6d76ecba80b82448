// The opened oneDNN: its version, its one CPU engine.
#pragma once

#include <map>
#include <string>

#include "backends/onednn/functions.h"

namespace octet::onednn {

// {"onednn": "3.2.0"}. Throws Error when the header that was compiled against and the library that
// is loaded differ in major or minor version, or when the library runs its CPU kernels on anything
// but OpenMP.
std::map<std::string, std::string> library_versions();

// Shared by every segment of the process; thread-safe.
const dnnl::engine& cpu_engine();

}  // namespace octet::onednn
