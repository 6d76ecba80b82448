// Shares one packed copy of a stored weight among all sizes and sessions that use it.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "lowering/program/program.h"
#include "lowering/program/stored_constant.h"

namespace octet::xnnpack {

// Returns what `pack` made of the same stored values before, while anyone uses it. Thread-safe.
template <typename T>
std::shared_ptr<const T> find_or_pack(const ProgramTensor& w, T (*pack)(const ProgramTensor&)) {
  struct Packed {
    T weights;
    StoredConstant source;  // owns the addresses that serve as key
  };
  using Key = std::tuple<const void*, const void*, const void*, std::vector<int64_t>>;
  using Known = std::map<Key, std::weak_ptr<Packed>>;
  static std::mutex* const mutex = new std::mutex;  // segments may outlive static objects
  static Known* const known = new Known;
  const auto address = [](const Tensor& tensor) -> const void* {
    return tensor.defined() ? tensor.raw() : nullptr;
  };
  const StoredConstant& source = *w.stored;
  const std::lock_guard<std::mutex> lock(*mutex);
  std::erase_if(*known, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<Packed>& entry = (*known)[{address(bytes_of(source)), address(source.scale),
                                           address(source.zero_point), w.shape}];
  std::shared_ptr<Packed> packed = entry.lock();
  if (packed == nullptr) entry = packed = std::make_shared<Packed>(Packed{pack(w), source});
  return {packed, &packed->weights};
}

}  // namespace octet::xnnpack
