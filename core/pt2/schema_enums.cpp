// Tables between the enums of graphs and the numbers of torch's program schema.
#include "core/pt2/schema.h"

#include <algorithm>
#include <utility>

#include <torch/csrc/utils/generated_serialization_types.h>

#include "core/base/error.h"

namespace octet {
namespace {

using Schema = torch::_export::ScalarType;

constexpr std::array<std::pair<Schema, DType>, 21> kDTypes = {{
    {Schema::BYTE, DType::kUInt8},
    {Schema::CHAR, DType::kInt8},
    {Schema::SHORT, DType::kInt16},
    {Schema::INT, DType::kInt32},
    {Schema::LONG, DType::kInt64},
    {Schema::HALF, DType::kFloat16},
    {Schema::FLOAT, DType::kFloat32},
    {Schema::DOUBLE, DType::kFloat64},
    {Schema::COMPLEXHALF, DType::kComplex32},
    {Schema::COMPLEXFLOAT, DType::kComplex64},
    {Schema::COMPLEXDOUBLE, DType::kComplex128},
    {Schema::BOOL, DType::kBool},
    {Schema::BFLOAT16, DType::kBFloat16},
    {Schema::UINT16, DType::kUInt16},
    {Schema::FLOAT8E4M3FN, DType::kFloat8E4M3FN},
    {Schema::FLOAT8E5M2, DType::kFloat8E5M2},
    {Schema::FLOAT8E4M3FNUZ, DType::kFloat8E4M3FNUZ},
    {Schema::FLOAT8E5M2FNUZ, DType::kFloat8E5M2FNUZ},
    {Schema::FLOAT8E8M0FNU, DType::kFloat8E8M0FNU},
    {Schema::UINT32, DType::kUInt32},
    {Schema::UINT64, DType::kUInt64},
}};

// Layout and MemoryFormat of core/graph/types.h have the schema's numbers.
template <typename Enum, typename Other>
constexpr bool are_equal(Enum ours, Other schema) {
  return static_cast<int>(ours) == static_cast<int>(schema);
}
static_assert(are_equal(Layout::kSparseCoo, torch::_export::Layout::SparseCoo) &&
              are_equal(Layout::kSparseCsr, torch::_export::Layout::SparseCsr) &&
              are_equal(Layout::kSparseCsc, torch::_export::Layout::SparseCsc) &&
              are_equal(Layout::kSparseBsr, torch::_export::Layout::SparseBsr) &&
              are_equal(Layout::kSparseBsc, torch::_export::Layout::SparseBsc) &&
              are_equal(Layout::kMkldnn, torch::_export::Layout::_mkldnn) &&
              are_equal(Layout::kStrided, torch::_export::Layout::Strided));
static_assert(are_equal(MemoryFormat::kContiguous,
                        torch::_export::MemoryFormat::ContiguousFormat) &&
              are_equal(MemoryFormat::kChannelsLast, torch::_export::MemoryFormat::ChannelsLast) &&
              are_equal(MemoryFormat::kChannelsLast3d,
                        torch::_export::MemoryFormat::ChannelsLast3d) &&
              are_equal(MemoryFormat::kPreserve, torch::_export::MemoryFormat::PreserveFormat));

template <typename Enum>
std::optional<Enum> find_counted(int number, Enum last) {
  if (number < 0 || number > static_cast<int>(last)) return std::nullopt;
  return static_cast<Enum>(number);
}

}  // namespace

std::optional<DType> find_dtype_by_schema(int number) {
  const auto found = std::ranges::find_if(
      kDTypes, [&](const auto& row) { return static_cast<int>(row.first) == number; });
  return found == kDTypes.end() ? std::nullopt : std::optional(found->second);
}

int schema_number(DType dtype) {
  const auto found =
      std::ranges::find_if(kDTypes, [&](const auto& row) { return row.second == dtype; });
  OCTET_ASSERT(found != kDTypes.end(), "dtype without a schema number");
  return static_cast<int>(found->first);
}

std::optional<Layout> find_layout_by_schema(int number) {
  return find_counted(number, Layout::kStrided);
}
int schema_number(Layout layout) { return static_cast<int>(layout); }

std::optional<MemoryFormat> find_memory_format_by_schema(int number) {
  return find_counted(number, MemoryFormat::kPreserve);
}
int schema_number(MemoryFormat format) { return static_cast<int>(format); }

bool is_function_target(const std::string& target) {
  static constexpr std::string_view kPrefixes[] = {"_operator.", "math.", "torch.", "builtins.",
                                                   "#"};
  return std::ranges::any_of(kPrefixes,
                             [&](std::string_view prefix) { return target.starts_with(prefix); });
}

}  // namespace octet
