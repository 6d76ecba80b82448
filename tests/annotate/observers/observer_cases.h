// The cases of make_observer_goldens.py: observers by their JSON description, and the data, which
// Python and C++ generate alike.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <nlohmann/json.hpp>

#include "annotate/observers/observer.h"

namespace octet::test {

// Does what batch() in make_observer_goldens.py does. kind: "", "empty", "scalar" or "inf".
at::Tensor make_batch(uint32_t seed, const std::vector<int64_t>& shape, float scale, float shift,
                      const std::string& kind = "");

// name: a file in tests/annotate.
nlohmann::json read_goldens(const std::string& name);

ObserverArgs args_of(const nlohmann::json& entry);
// The tensors of the entry's batches.
std::vector<at::Tensor> batches_of(const nlohmann::json& entry);
// A new observer that has seen the batches [begin, end).
std::shared_ptr<Observer> observed(const nlohmann::json& entry, size_t begin = 0,
                                   size_t end = SIZE_MAX);

// The default arguments of an observer of that name.
ObserverArgs named(const std::string& name);

}  // namespace octet::test
