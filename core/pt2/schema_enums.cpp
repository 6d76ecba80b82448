#include "core/pt2/schema_enums.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/error.h"

namespace octet {
namespace {

constexpr std::array<std::pair<int, DType>, 21> kDTypes = {
    {
     {1, DType::kUInt8},           {2, DType::kInt8},
     {3, DType::kInt16},           {4, DType::kInt32},
     {5, DType::kInt64},           {6, DType::kFloat16},
     {7, DType::kFloat32},         {8, DType::kFloat64},
     {9, DType::kComplex32},       {10, DType::kComplex64},
     {11, DType::kComplex128},     {12, DType::kBool},
     {13, DType::kBFloat16},       {28, DType::kUInt16},
     {29, DType::kFloat8E4M3FN},   {30, DType::kFloat8E5M2},
     {31, DType::kFloat8E4M3FNUZ}, {32, DType::kFloat8E5M2FNUZ},
     {33, DType::kFloat8E8M0FNU},  {34, DType::kUInt32},
     {35, DType::kUInt64},
     }
};

// Layout and MemoryFormat of core/graph/graph.h count as the schema does.
template <typename Enum>
std::optional<Enum> find_counted(int number, Enum last) {
  if (number < 0 || number > static_cast<int>(last)) return std::nullopt;
  return static_cast<Enum>(number);
}

}  // namespace

std::optional<DType> find_dtype_by_schema(int number) {
  const auto found =
      std::find_if(kDTypes.begin(), kDTypes.end(),
                   [&](const std::pair<int, DType>& row) { return row.first == number; });
  return found == kDTypes.end() ? std::nullopt : std::optional(found->second);
}

int schema_number(DType dtype) {
  const auto found =
      std::find_if(kDTypes.begin(), kDTypes.end(),
                   [&](const std::pair<int, DType>& row) { return row.second == dtype; });
  OCTET_ASSERT(found != kDTypes.end(), "dtype without a schema number");
  return found->first;
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
  return std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                     [&](std::string_view prefix) { return target.starts_with(prefix); });
}

}  // namespace octet
