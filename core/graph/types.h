// What a program knows of a tensor before it runs. Free of torch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/dtype.h"

namespace octet {

// A size that is a number, or an expression of shape symbols as torch writes it (sympy's srepr)
// with the value seen at export.
struct Dim {
  int64_t value = 0;  // when symbolic: the hint, or -1 when there is none
  std::string expr;   // "" when the size is a number
  bool is_symbolic() const { return !expr.empty(); }
  bool operator==(const Dim&) const = default;
};

struct Device {
  std::string type = "cpu";
  std::optional<int64_t> index;
  bool operator==(const Device&) const = default;
};

// torch's serde numbering
enum class Layout {
  kUnknown,
  kSparseCoo,
  kSparseCsr,
  kSparseCsc,
  kSparseBsr,
  kSparseBsc,
  kMkldnn,
  kStrided
};
// likewise
enum class MemoryFormat { kUnknown, kContiguous, kChannelsLast, kChannelsLast3d, kPreserve };

struct TensorMeta {
  DType dtype = DType::kFloat32;
  std::vector<Dim> sizes;
  std::vector<Dim> strides;
  Dim storage_offset;
  bool requires_grad = false;
  Device device;
  Layout layout = Layout::kStrided;

  bool is_static() const;              // no symbolic size
  std::vector<int64_t> shape() const;  // sizes; a symbolic one gives its hint
  bool operator==(const TensorMeta&) const = default;
};
// Contiguous, on the CPU.
TensorMeta make_meta(DType dtype, const std::vector<int64_t>& shape);

}  // namespace octet
