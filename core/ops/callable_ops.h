// Restricts which ops of the dispatcher a program may call. A program is a file that may come from
// anybody, so it may only call ops that compute: nothing that reaches files, the terminal, other
// processes or the state of this one.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>

namespace octet {

// Allowed are:
//   - aten, prims and quantized_decomposed, except for a list of ops that do more than compute, and
//     ops with storages, streams or TorchScript objects in their schemas;
//   - no other namespace that PyTorch itself fills (c10d, profiler, inductor, ...);
//   - in torchao's and all other namespaces, which somebody has loaded on purpose: ops that return
//     or write something, and that take a tensor if they take text (which may name a file);
//   - what allow_op() names.
//
// Returns why a program may not call `op`, as a clause ("it reads and writes files"); nothing when
// it may.
std::optional<std::string> refusal_of(const c10::OperatorHandle& op);

// The operator of a node's target; nothing when no loaded library registers it. Throws Error("run",
// subject, ...) when refusal_of() gives a reason. Use this to call an op that a program names;
// find_operator() is for reading its schema.
std::optional<c10::OperatorHandle> find_callable_operator(std::string_view target,
                                                          const std::string& subject);

// Allows programs to call this op, whatever it does. `name`: "aten.from_file", with or without an
// overload. Throws Error("run", name, ...) for other forms. Thread-safe.
void allow_op(std::string_view name);
std::vector<std::string> allowed_ops();  // the names, sorted

}  // namespace octet
