// The cases of make_observer_goldens.py: observers by their JSON description, and the data that
// both sides generate.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <nlohmann/json.hpp>

#include "annotate/observers/observer.h"

namespace octet::test {

// Twin of batch() in make_observer_goldens.py. kind: "", "empty", "scalar" or "inf".
at::Tensor make_batch(uint32_t seed, const std::vector<int64_t>& shape, float scale, float shift,
                      const std::string& kind = "");

// name: of a file in tests/annotate.
nlohmann::json read_goldens(const std::string& name);

ObserverArgs args_of(const nlohmann::json& entry);
// The tensors of entry's batches.
std::vector<at::Tensor> batches_of(const nlohmann::json& entry);
// A fresh observer that has seen the batches from `begin` to `end`.
std::shared_ptr<Observer> observed(const nlohmann::json& entry, size_t begin = 0,
                                   size_t end = SIZE_MAX);

// The default arguments under a name.
ObserverArgs named(const std::string& name);

}  // namespace octet::test
