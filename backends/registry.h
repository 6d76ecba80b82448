// Finds backends by name: those of this build, and those that a program or library registers. Does
// not depend on torch.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lowering/program/backend.h"

namespace octet {

using BackendMaker = std::function<std::unique_ptr<Backend>()>;
using BackendSupportMaker = std::function<std::unique_ptr<BackendSupport>()>;

// Registers a backend as `name`: lower() uses its support, and a Session uses it for the segments
// of an .octet file that name it. Call it before either; any thread may call it. Names consist of
// letters, digits and '_'. Throws Error("library", name, ...) if the name is invalid or taken, or a
// maker is empty.
void register_backend(const std::string& name, BackendMaker make_backend,
                      BackendSupportMaker make_support);

// The way to load a missing backend, as errors name it. An interface with another way replaces it
// in the texts that it shows: with_remedy(error.what(), "octet_load_plugin").
inline constexpr std::string_view kBackendRemedy = "--library, octet::register_backend";
std::string with_remedy(std::string text, std::string_view remedy);

// The backends of the build first, then the registered ones in alphabetical order.
std::vector<std::string> backend_names();

// Whether it is a backend of the build, neither registered nor a plug-in.
bool is_in_build(const std::string& name);

// Throws Error("backend", name, ...) for a name that is neither registered nor in this build.
std::unique_ptr<Backend> make_backend(const std::string& name);
std::unique_ptr<BackendSupport> make_support(const std::string& name);
// names: with commas between them, in order of preference: "acme_npu,xnnpack".
Supports make_supports(const std::string& names);

// The page of ops in Markdown, with a column for each backend that lists its kinds of ops.
std::string ops_page();

}  // namespace octet
