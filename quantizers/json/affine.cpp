// Tables of words and what they mean.
#include "quantizers/json/affine.h"

#include <array>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace octet {

namespace {

constexpr std::array<const char*, 9> kKeys = {
    "granularity",      "axis",          "group_size",
    "block_size",       "mapping_type",  "scale_dtype",
    "zero_point_dtype", "preserve_zero", "zero_point_domain"};

struct GranularityWord {
  std::string word;
  Granularity::Kind kind;
  const char* parameter;  // the key that it needs; null: none
};
const std::vector<GranularityWord> kGranularities = {
    {"per_tensor", Granularity::Kind::kPerTensor, nullptr},
    {"per_axis", Granularity::Kind::kPerAxis, "axis"},
    {"per_group", Granularity::Kind::kPerGroup, "group_size"},
    {"per_token", Granularity::Kind::kPerToken, nullptr},
    {"per_row", Granularity::Kind::kPerRow, nullptr},
    {"per_block", Granularity::Kind::kPerBlock, "block_size"},
};
constexpr std::array<const char*, 3> kParameters = {"axis", "group_size", "block_size"};

template <typename T>
using Words = std::vector<std::pair<std::string, T>>;
const Words<MappingType> kMappingTypes = {
    {"symmetric", MappingType::kSymmetric},
    {"symmetric_no_clipping_err", MappingType::kSymmetricNoClippingErr},
    {"asymmetric", MappingType::kAsymmetric},
};
const Words<ZeroPointDomain> kDomains = {
    {"int", ZeroPointDomain::kInt},
    {"float", ZeroPointDomain::kFloat},
    {"none", ZeroPointDomain::kNone},
};

template <typename T>
T meaning_at(const Place& place, const Words<T>& words) {
  std::vector<std::string> names;
  for (const auto& [word, meaning] : words) names.push_back(word);
  const std::string found = word_at(place, names);
  for (const auto& [word, meaning] : words)
    if (word == found) return meaning;
  return words.front().second;
}

std::vector<int64_t> block_size_at(const Place& place) {
  if (!place.value.is_array() || place.value.empty())
    place.want("a list of ints, one per dimension");
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < place.value.size(); ++i)
    sizes.push_back(int_in(place.at(i), 1, INT32_MAX));
  return sizes;
}

Granularity granularity_at(const Place& observer) {
  std::vector<std::string> words;
  for (const GranularityWord& row : kGranularities) words.push_back(row.word);
  const std::string word =
      observer.has("granularity") ? word_at(observer.at("granularity"), words) : "per_tensor";
  Granularity granularity;
  for (const GranularityWord& row : kGranularities) {
    if (row.word != word) continue;
    granularity.kind = row.kind;
    for (const char* parameter : kParameters) {
      const bool is_needed = row.parameter && std::string_view(row.parameter) == parameter;
      if (is_needed && !observer.has(parameter))
        observer.refuse(fmt::format("granularity {} needs \"{}\"", word, parameter));
      if (!is_needed && observer.has(parameter))
        observer.at(parameter).refuse(fmt::format("granularity {} has no \"{}\"", word, parameter));
    }
  }
  // a row lies along the last dimension
  if (granularity.kind == Granularity::Kind::kPerRow) granularity.axis = -1;
  if (observer.has("axis")) granularity.axis = axis_at(observer.at("axis"));
  if (observer.has("group_size"))
    granularity.group_size = int_in(observer.at("group_size"), 1, INT32_MAX);
  if (observer.has("block_size")) granularity.block_size = block_size_at(observer.at("block_size"));
  return granularity;
}

}  // namespace

std::span<const char* const> affine_keys() { return kKeys; }

AffineOptions affine_at(const Place& observer) {
  AffineOptions options;
  options.granularity = granularity_at(observer);
  if (observer.has("mapping_type"))
    options.mapping_type = meaning_at(observer.at("mapping_type"), kMappingTypes);
  if (observer.has("scale_dtype")) options.scale_dtype = dtype_at(observer.at("scale_dtype"));
  if (observer.has("zero_point_dtype"))
    options.zero_point_dtype = dtype_at(observer.at("zero_point_dtype"));
  if (observer.has("preserve_zero")) options.preserve_zero = bool_at(observer.at("preserve_zero"));
  if (observer.has("zero_point_domain"))
    options.zero_point_domain = meaning_at(observer.at("zero_point_domain"), kDomains);
  return options;
}

}  // namespace octet
