#include "annotate/annotation/granularity.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/base/shape.h"

namespace octet {
namespace {

using Kind = Granularity::Kind;

// The dimension `axis` of a tensor of rank `rank`; negative ones count from the end.
size_t dimension(int axis, size_t rank, const std::string& subject) {
  const int64_t index = wrap_dim(axis, rank);
  if (index < 0 || index >= static_cast<int64_t>(rank))
    throw Error(
        "annotate", subject,
        fmt::format(
            "a granularity along dimension {} of a tensor of rank {}; want a dimension that it has",
            axis, rank));
  return static_cast<size_t>(index);
}

int64_t known(int64_t size, size_t dim, Kind kind, const std::string& subject) {
  if (size >= 0) return size;
  throw Error("annotate", subject,
              fmt::format("{} needs the size of dimension {}, which is known at run time only; "
                          "choose per_token, or export with a fixed size",
                          name_of(kind), dim));
}

void check_divides(int64_t block, int64_t size, size_t dim, const std::string& subject) {
  if (block > 0 && size % block == 0) return;
  throw Error("annotate", subject,
              fmt::format("blocks of {} do not divide the {} elements of dimension {}; choose a "
                          "group or block size that does",
                          block, size, dim));
}

std::vector<int64_t> given_blocks(const Granularity& granularity, std::span<const int64_t> shape,
                                  const std::string& subject) {
  if (granularity.block_size.size() > shape.size())
    throw Error(
        "annotate", subject,
        fmt::format(
            "a block of {} dimensions for a tensor of rank {}, got {}; want at most as many",
            granularity.block_size.size(), shape.size(), granularity.block_size));
  std::vector<int64_t> result(shape.size() - granularity.block_size.size(), 1);
  result.insert(result.end(), granularity.block_size.begin(), granularity.block_size.end());
  for (size_t i = 0; i < shape.size(); ++i)
    if (result[i] != 1)
      check_divides(result[i], known(shape[i], i, granularity.kind, subject), i, subject);
  return result;
}

}  // namespace

std::string_view name_of(MappingType type) {
  switch (type) {
    case MappingType::kSymmetric:
      return "SYMMETRIC";
    case MappingType::kSymmetricNoClippingErr:
      return "SYMMETRIC_NO_CLIPPING_ERR";
    case MappingType::kAsymmetric:
      return "ASYMMETRIC";
  }
  OCTET_ASSERT(false, "unknown mapping type");
}

std::string_view name_of(Kind kind) {
  switch (kind) {
    case Kind::kPerTensor:
      return "per_tensor";
    case Kind::kPerAxis:
      return "per_axis";
    case Kind::kPerGroup:
      return "per_group";
    case Kind::kPerToken:
      return "per_token";
    case Kind::kPerRow:
      return "per_row";
    case Kind::kPerBlock:
      return "per_block";
  }
  OCTET_ASSERT(false, "unknown granularity");
}

std::string to_text(const Granularity& granularity) {
  const std::string name(name_of(granularity.kind));
  switch (granularity.kind) {
    case Kind::kPerAxis:
    case Kind::kPerRow:
      return fmt::format("{} {}", name, granularity.axis);
    case Kind::kPerGroup:
      return fmt::format("{} {}", name, granularity.group_size);
    case Kind::kPerBlock:
      return fmt::format("{} {}", name, granularity.block_size);
    default:
      return name;
  }
}

std::vector<int64_t> block_size_of(const Granularity& granularity, std::span<const int64_t> shape,
                                   const std::string& subject) {
  if (granularity.kind == Kind::kPerBlock) return given_blocks(granularity, shape, subject);
  if (shape.empty() && granularity.kind != Kind::kPerTensor)
    throw Error("annotate", subject,
                fmt::format("{} of a tensor without dimensions; want per_tensor",
                            name_of(granularity.kind)));
  std::vector<int64_t> result(shape.size(), 1);
  const auto fill = [&](size_t dim) {
    result[dim] = known(shape[dim], dim, granularity.kind, subject);
  };
  switch (granularity.kind) {
    case Kind::kPerTensor:
      for (size_t i = 0; i < shape.size(); ++i) fill(i);
      break;
    case Kind::kPerAxis: {
      const size_t axis = dimension(granularity.axis, shape.size(), subject);
      for (size_t i = 0; i < shape.size(); ++i)
        if (i != axis) fill(i);
      break;
    }
    case Kind::kPerRow:
      fill(dimension(granularity.axis, shape.size(), subject));
      break;
    case Kind::kPerToken:
      fill(shape.size() - 1);
      break;
    default:  // kPerGroup
      check_divides(granularity.group_size,
                    known(shape.back(), shape.size() - 1, granularity.kind, subject),
                    shape.size() - 1, subject);
      result.back() = granularity.group_size;
  }
  return result;
}

BlockReduction block_reduction(std::span<const int64_t> block_size,
                               std::span<const int64_t> shape) {
  OCTET_ASSERT(block_size.size() == shape.size(), "a block has as many dimensions as its tensor");
  BlockReduction result;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (block_size[i] == 1) {
      result.shape.push_back(shape[i]);
      result.scales.push_back(shape[i]);
      continue;
    }
    if (block_size[i] != shape[i]) {
      result.shape.push_back(shape[i] / block_size[i]);
      result.scales.push_back(shape[i] / block_size[i]);
    }
    result.dims.push_back(static_cast<int64_t>(result.shape.size()));
    result.shape.push_back(block_size[i]);
  }
  return result;
}

}  // namespace octet
