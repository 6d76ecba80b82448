// Packed weights, shared by all segments of the process that pack one constant in one way: sessions
// of a loaded program, the sizes of an open one.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "backends/onednn/functions.h"
#include "core/base/tensor.h"
#include "lowering/program/packed_cache.h"
#include "lowering/program/program.h"

namespace octet::onednn {

// How the bytes were made from the constant's: in oneDNN's layouts, or in the order of the custom
// kernel that `custom` names.
struct PackedForm {
  std::string custom;
  dnnl::memory::desc plain;
  dnnl::memory::desc packed;
  size_t bytes;  // of the packed ones
  bool operator==(const PackedForm&) const = default;
};

// What `pack` gives, or gave before for the same elements in memory, or what PackedCache::current()
// has of the same contents; kept as long as somebody has it. Only to be read. The constant's pages
// in a mapped file are given back (core/base/mapped_file.h). Thread-safe. A constant that is
// not contiguous is not shared.
// fits: judges what PackedCache has where the size depends on the elements; else it is form.bytes.
std::shared_ptr<std::byte> find_or_pack(const Tensor& constant, const PackedForm& form,
                                        const std::function<PackedBlock()>& pack,
                                        const PackedCache::Fits& fits = {});
// As above, for an expanded constant with equal integers, scales and zero points.
std::shared_ptr<std::byte> find_or_pack(const StoredConstant& stored, const PackedForm& form,
                                        const std::function<PackedBlock()>& pack);

}  // namespace octet::onednn
