// Loads plug-ins: shared libraries with a backend and the C interface of octet_plugin.h. Needs no
// LibTorch.
#pragma once

#include <string>

namespace octet {

// The function of a plug-in, by which --library tells it from an extension.
inline constexpr const char* kPluginEntry = "octet_plugin_entry";

// Registers the plug-in's backend (backends/registry.h) and returns its name. Loading a plug-in
// again changes nothing, and none is unloaded. Throws Error("library", path, ...) for a file that
// cannot be opened or is not a plug-in, a table with a fault, and a name that is taken.
std::string load_plugin(const std::string& path);

}  // namespace octet
