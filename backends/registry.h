// The backends of this process, by name: those of this build, and those that a program or a library
// of its own registers. Free of torch.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lowering/program/backend.h"

namespace octet {

using BackendMaker = std::function<std::unique_ptr<Backend>()>;
using BackendSupportMaker = std::function<std::unique_ptr<BackendSupport>()>;

// Makes a backend known as `name`: lower() takes its support, and a Session runs segments that an
// .octet file names it for. To be called before either, not while other threads lower or open
// sessions. Names consist of letters, digits and '_'. Throws Error("library", name, ...) for
// another name, one that is taken, and an absent maker.
void register_backend(const std::string& name, BackendMaker make_backend,
                      BackendSupportMaker make_support);

// Those of the build first, then the registered ones in alphabetical order.
std::vector<std::string> backend_names();

// Throws Error("backend", name, ...) for a name that nobody registered and this build has not.
std::unique_ptr<Backend> make_backend(const std::string& name);
std::unique_ptr<BackendSupport> make_support(const std::string& name);

}  // namespace octet
