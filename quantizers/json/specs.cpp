// Reads specs with one reader per kind; each kind has a key that the others lack.
#include "quantizers/json/specs.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "annotate/observers/fake_quantize.h"
#include "annotate/observers/observer.h"
#include "core/base/error.h"

namespace octet {

namespace {

// ---- arguments of affine observers
//
//   "granularity": "per_tensor" | "per_axis" with "axis" | "per_group" with "group_size" |
//       "per_token" | "per_row" | "per_block" with "block_size": [1, 32]
//   "mapping_type": "symmetric" | "symmetric_no_clipping_err" | "asymmetric"
//   "scale_dtype", "zero_point_dtype": dtypes; "has_16_bit_scales": bool (scales are values of
//       bfloat16); "preserve_zero": bool; "zero_point_domain": "int" | "float" | "none"

constexpr std::array<const char*, 10> kAffineKeys = {"granularity",      "axis",
                                                     "group_size",       "block_size",
                                                     "mapping_type",     "scale_dtype",
                                                     "zero_point_dtype", "has_16_bit_scales",
                                                     "preserve_zero",    "zero_point_domain"};

struct GranularityWord {
  std::string word;
  Granularity::Kind kind;
  const char* parameter;  // the key that it requires; null: none
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
  // a row extends along the last dimension
  if (granularity.kind == Granularity::Kind::kPerRow) granularity.axis = -1;
  if (observer.has("axis")) granularity.axis = axis_at(observer.at("axis"));
  if (observer.has("group_size"))
    granularity.group_size = int_in(observer.at("group_size"), 1, INT32_MAX);
  if (observer.has("block_size")) granularity.block_size = block_size_at(observer.at("block_size"));
  return granularity;
}

// Reads the arguments of an affine observer; ignores keys other than kAffineKeys.
AffineOptions affine_at(const Place& observer) {
  AffineOptions options;
  options.granularity = granularity_at(observer);
  if (observer.has("mapping_type"))
    options.mapping_type = meaning_at(observer.at("mapping_type"), kMappingTypes);
  if (observer.has("scale_dtype")) options.scale_dtype = dtype_at(observer.at("scale_dtype"));
  if (observer.has("zero_point_dtype"))
    options.zero_point_dtype = dtype_at(observer.at("zero_point_dtype"));
  if (observer.has("has_16_bit_scales"))
    options.has_16_bit_scales = bool_at(observer.at("has_16_bit_scales"));
  if (observer.has("preserve_zero")) options.preserve_zero = bool_at(observer.at("preserve_zero"));
  if (observer.has("zero_point_domain"))
    options.zero_point_domain = meaning_at(observer.at("zero_point_domain"), kDomains);
  return options;
}

// ---- specs

constexpr std::array<const char*, 7> kSpecKeys = {"dtype",     "qscheme",    "ch_axis", "quant_min",
                                                  "quant_max", "is_dynamic", "observer"};
constexpr std::array<const char*, 5> kFixedKeys = {"fixed", "dtype", "qscheme", "quant_min",
                                                   "quant_max"};
constexpr std::array<const char*, 7> kDerivedKeys = {
    "derived_from", "derive", "dtype", "qscheme", "ch_axis", "quant_min", "quant_max"};
constexpr std::array<const char*, 2> kFixedParts = {"scale", "zero_point"};
constexpr std::array<const char*, 2> kHalves = {"edge", "node"};
constexpr std::array<const char*, 6> kObserverKeys = {
    "name", "eps", "bins", "averaging_constant", "reduce_range", "percentile"};
const std::vector<std::string> kIntegers = {"int8", "uint8", "int16", "uint16", "int32"};
const std::vector<std::string> kDTypes = {"int8",  "uint8",   "int16",         "uint16",
                                          "int32", "float16", "float8_e4m3fn", "float8_e5m2"};
const std::vector<std::string> kQSchemes = {"per_tensor_affine", "per_tensor_symmetric",
                                            "per_channel_affine", "per_channel_symmetric",
                                            "per_channel_affine_float_qparams"};
constexpr std::string_view kAffinePrefix = "affine_";
constexpr int64_t kMaxBins = 1 << 20;

// Reads what all kinds except same_as have.
template <typename Spec>
void read_common(const Place& place, Spec& spec, const std::vector<std::string>& dtypes) {
  if (!place.has("dtype")) place.refuse("has no \"dtype\", want e.g. \"int8\"");
  spec.dtype = find_dtype(word_at(place.at("dtype"), dtypes)).value();
  if (place.has("quant_min")) spec.quant_min = int_at(place.at("quant_min"));
  if (place.has("quant_max")) spec.quant_max = int_at(place.at("quant_max"));
  if (spec.quant_min.has_value() != spec.quant_max.has_value())
    place.refuse("has one of quant_min and quant_max, want both or neither");
  if (place.has("qscheme")) spec.qscheme = find_qscheme(word_at(place.at("qscheme"), kQSchemes));
}

void read_axis(const Place& place, std::optional<int>& axis) {
  if (place.has("ch_axis")) axis = axis_at(place.at("ch_axis"));
}

QuantizationSpec spec_at(const Place& place) {
  check_keys(place, kSpecKeys);
  QuantizationSpec spec;
  read_common(place, spec, kDTypes);
  read_axis(place, spec.ch_axis);
  if (place.has("is_dynamic")) spec.is_dynamic = bool_at(place.at("is_dynamic"));
  if (!place.has("observer"))
    place.refuse(
        fmt::format("has no \"observer\", want one of {}", fmt::join(observer_names(), ", ")));
  spec.observer_or_fake_quant_ctr = observer_at(place.at("observer"));
  try {
    check_spec(spec, "spec");
    make_observer(observer_args(spec));
  } catch (const Error& error) {
    place.refuse(error.without_stage());
  }
  return spec;
}

FixedQParamsQuantizationSpec fixed_at(const Place& place) {
  check_keys(place, kFixedKeys);
  FixedQParamsQuantizationSpec spec;
  read_common(place, spec, kIntegers);
  const Place fixed = place.at("fixed");
  check_keys(fixed, kFixedParts);
  for (const char* key : kFixedParts)
    if (!fixed.has(key)) fixed.refuse(fmt::format("has no \"{}\", want scale and zero_point", key));
  spec.scale = positive_at(fixed.at("scale"));
  spec.zero_point = int_at(fixed.at("zero_point"));
  try {
    check_spec(spec, "spec");
    make_observer(spec);
  } catch (const Error& error) {
    place.refuse(error.without_stage());
  }
  return spec;
}

DerivedFrom derived_at(const Place& place) {
  check_keys(place, kDerivedKeys);
  DerivedFrom derived;
  read_common(place, derived.spec, kIntegers);
  read_axis(place, derived.spec.ch_axis);
  const Place sources = place.at("derived_from");
  if (!sources.value.is_array() || sources.value.empty())
    sources.want("a list of slots, e.g. [\"x\", \"w\"]");
  for (size_t i = 0; i < sources.value.size(); ++i)
    derived.slots.push_back(string_at(sources.at(i)));
  if (!place.has("derive"))
    place.refuse(
        fmt::format("has no \"derive\", want one of {}", fmt::join(derive_fn_names(), ", ")));
  derived.spec.derive_name = word_at(place.at("derive"), derive_fn_names());
  derived.spec.derive_qparams_fn = find_derive_fn(derived.spec.derive_name);
  DerivedQuantizationSpec complete = derived.spec;
  complete.derived_from.emplace_back();
  try {
    check_spec(complete, "spec");
  } catch (const Error& error) {
    place.refuse(error.without_stage());
  }
  return derived;
}

SameAs same_at(const Place& place) {
  constexpr std::array<const char*, 1> kKeys = {"same_as"};
  check_keys(place, kKeys);
  const Place target = place.at("same_as");
  check_keys(target, kHalves);
  if (target.value.size() != 1) target.want("{\"edge\": a slot} or {\"node\": a slot}");
  const bool is_edge = target.has("edge");
  return {string_at(target.at(is_edge ? "edge" : "node")),
          is_edge ? SameAs::Half::kEdge : SameAs::Half::kValue};
}

// A fake-quant may name another observer in parentheses: "fake_quantize(histogram)".
std::string observer_name_at(const Place& place, const std::vector<std::string>& names) {
  const auto is_known = [&](const std::string& name) {
    return std::ranges::find(names, name) != names.end();
  };
  const std::string text = place.value.is_string() ? place.value.get<std::string>() : "";
  const WrappedName split = split_observer_name(text);
  if (!split.inner.empty() && is_known(split.outer) && is_known(split.inner)) return text;
  return word_at(place, names);
}

// Reads the spec with an observer under the only key of the object.
QuantizationSpec inner_spec_at(const Place& place, const char* key, const SpecTable& table) {
  const std::array<const char*, 1> keys = {key};
  check_keys(place, keys);
  const Place inner = place.at(key);
  const SlotSpec cell = cell_at(inner, table);
  const QuantizationSpec* spec = std::get_if<QuantizationSpec>(&cell);
  if (!spec) inner.want("a spec with an observer");
  return *spec;
}

}  // namespace

DType quantized_dtype_at(const Place& place) { return find_dtype(word_at(place, kDTypes)).value(); }

ObserverChoice observer_at(const Place& place) {
  ObserverChoice choice;
  const std::vector<std::string> names = observer_names();
  if (place.value.is_string()) {
    choice.name = observer_name_at(place, names);
    if (choice.name.starts_with(kAffinePrefix)) choice.affine = AffineOptions();
    return choice;
  }
  if (!place.value.is_object())
    place.want("the name of an observer, or an object with its \"name\" and arguments");
  if (!place.has("name"))
    place.refuse(fmt::format("has no \"name\", want one of {}", fmt::join(names, ", ")));
  choice.name = observer_name_at(place.at("name"), names);
  std::vector<const char*> keys(kObserverKeys.begin(), kObserverKeys.end());
  if (choice.name.starts_with(kAffinePrefix)) {
    choice.affine = affine_at(place);
    keys.insert(keys.end(), kAffineKeys.begin(), kAffineKeys.end());
  }
  check_keys(place, keys);
  if (place.has("eps")) choice.eps = positive_at(place.at("eps"));
  if (place.has("bins")) choice.bins = static_cast<int>(int_in(place.at("bins"), 2, kMaxBins));
  if (place.has("averaging_constant"))
    choice.averaging_constant = positive_at(place.at("averaging_constant"));
  if (choice.averaging_constant > 1) place.at("averaging_constant").want("at most 1");
  if (place.has("reduce_range")) choice.reduce_range = bool_at(place.at("reduce_range"));
  if (place.has("percentile")) choice.percentile = positive_at(place.at("percentile"));
  if (choice.percentile > 100) place.at("percentile").want("at most 100");
  return choice;
}

SpecTable specs_at(const Place& place) {
  if (!place.value.is_object()) place.want("an object of names and specs");
  SpecTable table;
  for (const auto& [name, value] : place.value.items()) {
    const Place spec = place.at(name);
    if (!value.is_object()) spec.want("a spec");
    table.emplace(name, cell_at(spec, table));
  }
  return table;
}

SlotSpec cell_at(const Place& place, const SpecTable& table) {
  if (place.value.is_null()) return LeaveFloat{};
  if (place.value.is_string()) {
    const SpecTable::const_iterator found = table.find(place.value.get<std::string>());
    if (found != table.end()) return found->second;
    std::vector<std::string> names;
    for (const auto& [name, spec] : table) names.push_back(name);
    place.want(names.empty()
                   ? "a spec in place; the file has no \"specs\" before this"
                   : fmt::format("a spec in place, or one of {}", fmt::join(names, ", ")));
  }
  if (!place.value.is_object()) place.want("the name of a spec, a spec, or null to leave it float");
  if (place.has("same_as")) return same_at(place);
  if (place.has("all_same")) return AllSame{Role::kInput, inner_spec_at(place, "all_same", table)};
  if (place.has("like_producer"))
    return LikeProducer{Role::kInput, inner_spec_at(place, "like_producer", table)};
  if (place.has("fixed")) return fixed_at(place);
  if (place.has("derived_from")) return derived_at(place);
  return spec_at(place);
}

}  // namespace octet
