// Which ops of the dispatcher a program may call. A program is a file that may come from anybody,
// so it calls ops that compute and no others: nothing that reaches files, the terminal, other
// processes or the state of this one.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <ATen/core/dispatch/Dispatcher.h>

namespace octet {

// Allowed are:
//  - aten, prims and quantized_decomposed, but for a list of ops that do more than compute, and for
//    ops with storages, streams or TorchScript objects in their schemas;
//  - no other namespace that PyTorch itself fills (c10d, profiler, inductor, ...);
//  - of all others, torchao's and those of custom ops, which somebody has loaded on purpose, ops
//    that give or write something, and take a tensor when they take text (which may name a file);
//  - what allow_op() names.
//
// Why a program may not call `op`, as a clause ("it reads and writes files"); nothing when it may.
std::optional<std::string> refusal_of(const c10::OperatorHandle& op);

// The operator of a node's target. Nothing when no loaded library registers it. Throws Error("run",
// subject, ...) when refusal_of() has a reason. Whoever calls an op that a program names finds it
// here; find_operator() is for those who look at its schema.
std::optional<c10::OperatorHandle> find_callable_operator(std::string_view target,
                                                          const std::string& subject);

// Programs may call this op from now on, whatever it does. `name`: "aten.from_file", with or
// without an overload. Throws Error("run", name, ...) for another form. Thread-safe.
void allow_op(std::string_view name);

}  // namespace octet
