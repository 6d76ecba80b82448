// Shares packed weights among all segments of the process that pack the same constant in the same
// way: sessions of one program, or the bound sizes of one session.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "backends/onednn/functions.h"
#include "core/base/tensor.h"
#include "lowering/program/packed_cache.h"
#include "lowering/program/program.h"

namespace octet::onednn {

// How a constant was packed: in a oneDNN layout, or for the custom kernel that `custom` names.
struct PackedForm {
  std::string custom;
  dnnl::memory::desc plain;
  dnnl::memory::desc packed;
  size_t bytes;  // size of the packed form
  bool operator==(const PackedForm&) const = default;
};

// Returns read-only packed bytes: those packed before for the same elements in memory, those that
// PackedCache::current() holds for equal contents, or the result of `pack`. They are kept while
// anyone holds them. The constant's pages in a mapped file are released (core/base/mapped_file.h).
// A non-contiguous constant is not shared. Thread-safe. fits: checks an entry of PackedCache if the
// size depends on the elements; else form.bytes does.
std::shared_ptr<std::byte> find_or_pack(const Tensor& constant, const PackedForm& form,
                                        const std::function<PackedBlock()>& pack,
                                        const PackedCache::Fits& fits = {});
// As above, for an expanded constant; shared when integers, scales and zero points are equal.
std::shared_ptr<std::byte> find_or_pack(const StoredConstant& stored, const PackedForm& form,
                                        const std::function<PackedBlock()>& pack);

}  // namespace octet::onednn
