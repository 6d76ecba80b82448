// Blocks of elements that share one scale: sizes, and the shape of the tensor of scales. The rules
// are torchao's.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "annotate/annotation/quant_spec.h"

namespace octet {

// "SYMMETRIC", "SYMMETRIC_NO_CLIPPING_ERR", "ASYMMETRIC": what torchao's ops are told
std::string_view name_of(MappingType type);
std::string_view name_of(Granularity::Kind kind);  // "per_tensor", "per_axis", ...

// "per_tensor", "per_axis 0", "per_group 32", "per_block [1, 32]", ...
std::string to_text(const Granularity& granularity);

// Elements of each dimension per scale, for a tensor of `shape`; -1 stands for a size that is known
// at run time only.
//   per tensor [8, 16] -> [8, 16]   per axis 0 -> [1, 16]   per group of 4 -> [1, 4]   per token,
//       per row -> [1, 16]
// A per-block granularity of fewer dimensions than the tensor has is filled up with ones in front.
// Throws Error("annotate", subject, ...) when the granularity does not divide the shape, names a
// dimension that the tensor lacks, or needs an unknown size.
std::vector<int64_t> block_size_of(const Granularity& granularity, std::span<const int64_t> shape,
                                   const std::string& subject);

// How a tensor is folded so that each block becomes the range of some dimensions: view(shape), then
// reduce over `dims`. Dimensions that one block spans vanish from the scales; those with one
// element per block stay.
struct BlockReduction {
  std::vector<int64_t> shape;   // of the view
  std::vector<int64_t> dims;    // of the view, to reduce over
  std::vector<int64_t> scales;  // shape of the scales
};
BlockReduction block_reduction(std::span<const int64_t> block_size, std::span<const int64_t> shape);

}  // namespace octet
