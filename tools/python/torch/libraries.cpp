#include "tools/python/torch/bindings.h"

#include <filesystem>
#include <string>
#include <vector>

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "core/ops/callable_ops.h"
#include "core/ops/op_lookup.h"
#include "tools/cli/common/library.h"
#include "tools/python/torch/calls.h"
#include "tools/python/torch/symbols.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace octet::python {
namespace {

constexpr const char* kLoadLibrary =
    R"(Loads a shared library of your own, as `--library` of the command does.

path: of the library. What it registers is known from then on, to all of octet: ops of
    TORCH_LIBRARY (torch.ops has them, too), and with OCTET_EXTENSION() of tools/extension.h
    quantizers, observers, derive functions, metrics, backends and kernels of custom ops.
    A plug-in (octet_plugin.h) has one backend. The same libraries serve the command.
    octet_runtime has its own registries: it loads plug-ins with octet_runtime.load_plugin(), and
    a program with kernels of custom ops runs with octet.load().

A library that is loaded already is left as it is, and none is unloaded. Raises Error when the file
is missing or no library, when its symbols do not resolve, when it was built for another Octet
(with other headers, another torch, compiler or standard library), when it registers nothing, or a name that is taken.)";

constexpr const char* kAllowOp =
    R"(Lets programs call an op that does more than compute, as `--allow-op` of the command does.

name: of the op, with or without an overload: "aten.from_file". Such ops reach files, the terminal
    or the state of the process. Without this call, a program that has one raises Error when it is
    run, calibrated or lowered. Only for programs that you trust; it holds for the whole process.

Raises Error for a name without a namespace.)";

// Registering waits for other threads that use the registries.
void load_library(const std::filesystem::path& path) {
  without_gil([&] {
    show_symbols();
    load_libraries({path.string()});
  });
}

// "quantize_per_tensor.tensor" for each in the namespace octet_quantized_decomposed.
std::vector<std::string> decomposed_ops() {
  register_quantized_decomposed();
  std::vector<std::string> names;
  const std::string prefix = std::string(kOwnQuantizedDecomposed) + "::";
  for (const c10::OperatorName& op : c10::Dispatcher::singleton().getAllOpNames())
    if (op.name.starts_with(prefix))
      names.push_back(op.name.substr(prefix.size()) + "." +
                      (op.overload_name.empty() ? "default" : op.overload_name));
  return names;
}

}  // namespace

void bind_libraries(nb::module_& module) {
  module.def("load_library", load_library, "path"_a, kLoadLibrary);
  module.def("decomposed_ops", decomposed_ops, "Octet's ops of q/dq graphs, with their overloads.");
  module.def("allow_op", [](const std::string& name) { allow_op(name); }, "name"_a, kAllowOp);
}

}  // namespace octet::python
