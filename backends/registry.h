// The backends of this build, by name. Free of torch.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lowering/program/backend.h"

namespace octet {

std::vector<std::string> backend_names();

// Throws Error("backend", name, ...) for a name that is not in this build.
std::unique_ptr<Backend> make_backend(const std::string& name);
std::unique_ptr<BackendSupport> make_support(const std::string& name);

}  // namespace octet
