// Tables of options, and the caller's overrides.
#include "quantizers/json/options.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "core/base/error.h"
#include "quantizers/cache/quantizer.h"
#include "quantizers/embedding/quantizer.h"
#include "quantizers/json/specs.h"
#include "quantizers/x86/quantizer.h"
#include "quantizers/xnnpack/quantizer.h"

namespace octet {

namespace {

// A key and the member that it sets.
template <typename Options, typename Kind>
struct Option {
  const char* key;
  Kind Options::* member;
};
constexpr std::array<Option<OwnOptions, bool>, 3> kOwnBools = {
    {{"is_weight_only", &OwnOptions::is_weight_only},
     {"is_per_token", &OwnOptions::is_per_token},
     {"search_weight_ranges", &OwnOptions::search_weight_ranges}}};
constexpr std::array<Option<SymmetricOptions, bool>, 3> kSymmetricBools = {
    {{"is_per_channel", &SymmetricOptions::is_per_channel},
     {"is_dynamic", &SymmetricOptions::is_dynamic},
     {"reduce_range", &SymmetricOptions::reduce_range}}};
constexpr std::array<Option<SymmetricOptions, int64_t>, 4> kSymmetricInts = {
    {{"act_qmin", &SymmetricOptions::act_qmin},
     {"act_qmax", &SymmetricOptions::act_qmax},
     {"weight_qmin", &SymmetricOptions::weight_qmin},
     {"weight_qmax", &SymmetricOptions::weight_qmax}}};
constexpr std::array<Option<X86InductorOptions, bool>, 2> kX86Bools = {
    {{"is_dynamic", &X86InductorOptions::is_dynamic},
     {"reduce_range", &X86InductorOptions::reduce_range}}};
constexpr std::array<const char*, 16> kSymmetricKeys = {
    "is_per_channel", "is_dynamic",     "is_qat",          "act_qmin",
    "act_qmax",       "weight_qmin",    "weight_qmax",     "reduce_range",
    "weight_bits",    "is_weight_only", "is_per_token",    "search_weight_ranges",
    "group_size",     "act_observer",   "weight_observer", "activation_bits"};
constexpr std::array<const char*, 12> kX86Keys = {
    "is_dynamic",     "is_qat",       "reduce_range",         "preset",
    "is_weight_only", "is_per_token", "search_weight_ranges", "weight_bits",
    "group_size",     "act_observer", "weight_observer",      "activation_bits"};
constexpr std::array<const char*, 1> kEmbeddingKeys = {"weight_bits"};
constexpr std::array<const char*, 1> kDtypeConfigKeys = {"dtype_config"};
const std::array<std::string, 1> kPresets = {"linear_dynamic_fp16"};

bool is_object_or_null(const Place& place, std::span<const char* const> keys) {
  if (place.value.is_null()) return false;
  if (!place.value.is_object()) place.want("an object of options, or null to leave it float");
  check_keys(place, keys);
  return true;
}

bool is_qat_at(const Place& place, const QuantizerOptions& overrides) {
  if (!place.has("is_qat")) return overrides.is_qat;
  const bool is_qat = bool_at(place.at("is_qat"));
  if (is_qat && !overrides.is_qat)
    place.at("is_qat").refuse("got true, want false: this command does not train; use octet qat");
  return is_qat;
}

template <typename Options, size_t kCount>
void read_bools(const Place& place, const std::array<Option<Options, bool>, kCount>& table,
                Options& options) {
  for (const Option<Options, bool>& option : table)
    if (place.has(option.key)) options.*option.member = bool_at(place.at(option.key));
}

void read_own(const Place& place, OwnOptions& options) {
  read_bools(place, kOwnBools, options);
  if (place.has("weight_bits")) options.weight_bits = int_at(place.at("weight_bits"));
  if (place.has("activation_bits")) options.activation_bits = int_at(place.at("activation_bits"));
  if (place.has("group_size")) options.group_size = int_at(place.at("group_size"));
  if (place.has("act_observer")) options.act_observer = observer_at(place.at("act_observer"));
  if (place.has("weight_observer"))
    options.weight_observer = observer_at(place.at("weight_observer"));
}

// Options that improve accuracy default to on, except in compat. Weight ranges are not searched in
// training, where weights change, also those of parts that are only observed.
template <typename Options>
Options default_options(const QuantizerOptions& overrides, bool is_qat) {
  Options options;
  options.is_qat = is_qat;
  options.own.is_per_token = overrides.compat == Compat::kNone;
  options.own.search_weight_ranges = overrides.compat == Compat::kNone && !overrides.is_qat;
  options.own.learns_ranges = overrides.learns_ranges;
  return options;
}

// "/global" and "/compose/0/global", not a module of that name.
bool is_global(const Place& place) {
  constexpr std::string_view kEnd = "/global";
  if (!place.path.ends_with(kEnd)) return false;
  const size_t size = place.path.size() - kEnd.size();
  return size == 0 || std::isdigit(static_cast<unsigned char>(place.path[size - 1]));
}

// What the command sets, without what this row sets for its ops. Of "global" and the command, both
// of which concern all ops, the command decides.
QuantizerOptions overrides_of(const Place& place, QuantizerOptions overrides) {
  if (place.value.is_null() || is_global(place)) return overrides;
  if (place.has("weight_bits")) overrides.weight_bits.reset();
  if (place.has("activation_bits")) overrides.activation_bits.reset();
  if (place.has("group_size")) overrides.group_size.reset();
  if (place.has("reduce_range")) overrides.reduce_range.reset();
  if (place.has("is_dynamic")) overrides.is_dynamic.reset();
  if (place.has("is_weight_only")) overrides.is_weight_only.reset();
  if (place.has("is_per_channel")) overrides.is_per_channel.reset();
  // what excludes an option of the row
  const auto is_on = [&](const char* key) { return place.has(key) && bool_at(place.at(key)); };
  const auto sets_bits = [&](const char* key, int64_t bits) {
    return place.has(key) && int_at(place.at(key)) == bits;
  };
  if (is_on("is_dynamic") || is_on("is_weight_only")) overrides.activation_bits.reset();
  if (overrides.weight_bits == 16 &&
      (is_on("is_dynamic") || is_on("is_weight_only") || sets_bits("activation_bits", 8)))
    overrides.weight_bits.reset();
  if (overrides.weight_bits == 16 && place.has("group_size") && !sets_bits("group_size", 0))
    overrides.weight_bits.reset();
  if (sets_bits("weight_bits", 16)) overrides.group_size.reset();
  if (sets_bits("activation_bits", 16)) overrides.reduce_range.reset();
  return overrides;
}

template <typename Options>
void override_options(Options& options, const QuantizerOptions& overrides) {
  options.is_dynamic = overrides.is_dynamic.value_or(options.is_dynamic);
  options.own.is_weight_only = overrides.is_weight_only.value_or(options.own.is_weight_only);
  options.own.weight_bits = overrides.weight_bits.value_or(options.own.weight_bits);
  options.own.activation_bits = overrides.activation_bits.value_or(options.own.activation_bits);
  if (overrides.group_size) options.own.group_size = overrides.group_size;
  options.reduce_range = overrides.reduce_range.value_or(options.reduce_range);
}

void override_symmetric(SymmetricOptions& options, const QuantizerOptions& overrides) {
  options.is_per_channel = overrides.is_per_channel.value_or(options.is_per_channel);
  override_options(options, overrides);
}

QuantizationConfig x86_config(const X86InductorOptions& options,
                              const QuantizerOptions& overrides) {
  if (options.own.is_weight_only && overrides.compat == Compat::kTorchao)
    throw Error(
        "quantizer", "is_weight_only",
        "torchao's X86InductorQuantizer has no weight-only mode; leave out --compat torchao");
  return get_default_x86_inductor_quantization_config(options);
}

}  // namespace

std::optional<QuantizationConfig> symmetric_config_at(const Place& place,
                                                      const QuantizerOptions& overrides) {
  if (!is_object_or_null(place, kSymmetricKeys)) return std::nullopt;
  SymmetricOptions options =
      default_options<SymmetricOptions>(overrides, is_qat_at(place, overrides));
  options.is_per_channel = overrides.rows_are_per_channel;
  read_bools(place, kSymmetricBools, options);
  for (const Option<SymmetricOptions, int64_t>& option : kSymmetricInts)
    if (place.has(option.key)) options.*option.member = int_at(place.at(option.key));
  read_own(place, options.own);
  override_symmetric(options, overrides_of(place, overrides));
  try {
    return get_symmetric_quantization_config(options);
  } catch (const Error& error) {
    place.refuse(error.without_stage());
  }
}

std::optional<QuantizationConfig> x86_config_at(const Place& place,
                                                const QuantizerOptions& overrides) {
  if (!is_object_or_null(place, kX86Keys)) return std::nullopt;
  if (place.has("preset")) {
    word_at(place.at("preset"), kPresets);
    if (place.value.size() > 1) place.refuse("a preset takes no further options");
    return get_x86_inductor_linear_dynamic_fp16_config();
  }
  X86InductorOptions options =
      default_options<X86InductorOptions>(overrides, is_qat_at(place, overrides));
  read_bools(place, kX86Bools, options);
  read_own(place, options.own);
  override_options(options, overrides_of(place, overrides));
  try {
    return x86_config(options, overrides);
  } catch (const Error& error) {
    place.refuse(error.without_stage());
  }
}

std::optional<QuantizationConfig> embedding_config_at(const Place& place,
                                                      const QuantizerOptions& overrides) {
  if (!is_object_or_null(place, kEmbeddingKeys)) return std::nullopt;
  int64_t bits = place.has("weight_bits") ? int_at(place.at("weight_bits")) : 8;
  bits = overrides_of(place, overrides).weight_bits.value_or(bits);
  try {
    return get_embedding_quantization_config(bits, overrides.compat);
  } catch (const Error& error) {
    place.refuse(error.without_stage());
  }
}

std::optional<QuantizationConfig> kv_cache_config_at(const Place& place, const QuantizerOptions&) {
  std::vector<const char*> keys;
  for (std::span<const char* const> some :
       {std::span<const char* const>(kSymmetricKeys), std::span<const char* const>(kX86Keys)})
    keys.insert(keys.end(), some.begin(), some.end());
  if (!is_object_or_null(place, keys)) return std::nullopt;
  return get_kv_cache_quantization_config();
}

std::optional<QuantizationConfig> dtype_config_at(const Place& place,
                                                  std::span<const QuantizationConfig> configs) {
  if (!is_object_or_null(place, kDtypeConfigKeys)) return std::nullopt;
  if (configs.empty()) place.want("null: the quantizer has no configurations to choose among");
  if (!place.has("dtype_config")) return configs.front();
  const Place choice = place.at("dtype_config");
  std::vector<std::string> names;
  for (const QuantizationConfig& config : configs)
    if (!config.dtype_config.empty()) names.push_back(config.dtype_config);
  if (names.empty())
    choice.refuse("the quantizer lists no dtype_configs to choose among; leave it out");
  const std::string name = word_at(choice, names);
  return *std::ranges::find_if(
      configs, [&](const QuantizationConfig& config) { return config.dtype_config == name; });
}

std::vector<std::string> option_keys(const std::string& base) {
  std::vector<std::string> keys;
  const auto add = [&](std::span<const char* const> more) {
    keys.insert(keys.end(), more.begin(), more.end());
  };
  if (base.empty() || base == "xnnpack" || base == "qnnpack") add(kSymmetricKeys);
  if (base.empty() || base == "x86") add(kX86Keys);
  if (base.empty() || base == "embedding") add(kEmbeddingKeys);
  return keys;
}

QuantizationConfig default_symmetric_config(const QuantizerOptions& overrides) {
  SymmetricOptions options = default_options<SymmetricOptions>(overrides, overrides.is_qat);
  options.is_per_channel = true;
  override_symmetric(options, overrides);
  return get_symmetric_quantization_config(options);
}

QuantizationConfig default_x86_config(const QuantizerOptions& overrides) {
  X86InductorOptions options = default_options<X86InductorOptions>(overrides, overrides.is_qat);
  override_options(options, overrides);
  return x86_config(options, overrides);
}

QuantizationConfig default_embedding_config(const QuantizerOptions& overrides) {
  return get_embedding_quantization_config(overrides.weight_bits.value_or(8), overrides.compat);
}

QuantizationConfig default_kv_cache_config(const QuantizerOptions&) {
  return get_kv_cache_quantization_config();
}

}  // namespace octet
