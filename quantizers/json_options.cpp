// Tables of options, and what the caller overrides.
#include "quantizers/json_options.h"

#include <array>

#include "core/error.h"
#include "quantizers/embedding_quantizer.h"
#include "quantizers/json_specs.h"
#include "quantizers/x86_config.h"
#include "quantizers/xnnpack_config.h"

namespace octet {

namespace {

template <typename Options>
struct BoolOption {
  const char* key;
  bool Options::*member;
};
struct IntOption {
  const char* key;
  int64_t SymmetricOptions::*member;
};
constexpr std::array<BoolOption<SymmetricOptions>, 4> kSymmetricBools = {
    {{"is_per_channel", &SymmetricOptions::is_per_channel},
     {"is_dynamic", &SymmetricOptions::is_dynamic},
     {"is_weight_only", &SymmetricOptions::is_weight_only},
     {"is_per_token", &SymmetricOptions::is_per_token}}
};
constexpr std::array<IntOption, 5> kSymmetricInts = {
    {{"act_qmin", &SymmetricOptions::act_qmin},
     {"act_qmax", &SymmetricOptions::act_qmax},
     {"weight_qmin", &SymmetricOptions::weight_qmin},
     {"weight_qmax", &SymmetricOptions::weight_qmax},
     {"weight_bits", &SymmetricOptions::weight_bits}}
};
constexpr std::array<const char*, 13> kSymmetricKeys = {"is_per_channel", "is_dynamic",   "is_qat",         "act_qmin",       "act_qmax",
                                                        "weight_qmin",    "weight_qmax",  "weight_bits",    "is_weight_only", "is_per_token",
                                                        "group_size",     "act_observer", "weight_observer"};
constexpr std::array<BoolOption<X86InductorOptions>, 4> kX86Bools = {
    {{"is_dynamic", &X86InductorOptions::is_dynamic},
     {"reduce_range", &X86InductorOptions::reduce_range},
     {"is_weight_only", &X86InductorOptions::is_weight_only},
     {"is_per_token", &X86InductorOptions::is_per_token}}
};
constexpr std::array<const char*, 10> kX86Keys = {"is_dynamic",   "is_qat",      "reduce_range", "preset",       "is_weight_only",
                                                  "is_per_token", "weight_bits", "group_size",   "act_observer", "weight_observer"};
constexpr std::array<const char*, 1> kEmbeddingKeys = {"weight_bits"};
const std::array<std::string, 1> kPresets = {"linear_dynamic_fp16"};

bool is_object_or_null(const Place& place, std::span<const char* const> keys) {
  if (place.value.is_null()) return false;
  if (!place.value.is_object()) place.want("an object of options, or null to leave it float");
  check_keys(place, keys);
  return true;
}

void refuse_training(const Place& place) {
  if (place.has("is_qat") && bool_at(place.at("is_qat")))
    place.at("is_qat").refuse("got true, want false; training with fake quantization is not in this build");
}

template <typename Options>
void read_observers(const Place& place, Options& options) {
  if (place.has("act_observer")) options.act_observer = observer_at(place.at("act_observer"));
  if (place.has("weight_observer")) options.weight_observer = observer_at(place.at("weight_observer"));
}

SymmetricOptions default_symmetric_options(const QuantizerOptions& overrides) {
  SymmetricOptions options;
  options.is_per_token = !overrides.compat_torchao;
  return options;
}

void override_symmetric(SymmetricOptions& options, const QuantizerOptions& overrides) {
  options.is_per_channel = overrides.is_per_channel.value_or(options.is_per_channel);
  options.is_dynamic = overrides.is_dynamic.value_or(options.is_dynamic);
  options.is_weight_only = overrides.is_weight_only.value_or(options.is_weight_only);
  options.weight_bits = overrides.weight_bits.value_or(options.weight_bits);
  if (overrides.group_size) options.group_size = overrides.group_size;
}

X86InductorOptions default_x86_options(const QuantizerOptions& overrides) {
  X86InductorOptions options;
  options.is_per_token = !overrides.compat_torchao;
  return options;
}

void override_x86(X86InductorOptions& options, const QuantizerOptions& overrides) {
  options.is_dynamic = overrides.is_dynamic.value_or(options.is_dynamic);
  options.is_weight_only = overrides.is_weight_only.value_or(options.is_weight_only);
  options.weight_bits = overrides.weight_bits.value_or(options.weight_bits);
  if (overrides.group_size) options.group_size = overrides.group_size;
}

QuantizationConfig x86_config(const X86InductorOptions& options, const QuantizerOptions& overrides) {
  if (options.is_weight_only && overrides.compat_torchao)
    throw Error("quantizer", "is_weight_only", "torchao's X86InductorQuantizer has no weights alone; leave out --compat torchao");
  return get_default_x86_inductor_quantization_config(options);
}

}  // namespace

std::optional<QuantizationConfig> symmetric_config_at(const Place& place, const QuantizerOptions& overrides) {
  if (!is_object_or_null(place, kSymmetricKeys)) return std::nullopt;
  SymmetricOptions options = default_symmetric_options(overrides);
  for (const BoolOption<SymmetricOptions>& option : kSymmetricBools)
    if (place.has(option.key)) options.*option.member = bool_at(place.at(option.key));
  for (const IntOption& option : kSymmetricInts)
    if (place.has(option.key)) options.*option.member = int_at(place.at(option.key));
  if (place.has("group_size")) options.group_size = int_at(place.at("group_size"));
  read_observers(place, options);
  refuse_training(place);
  override_symmetric(options, overrides);
  try {
    return get_symmetric_quantization_config(options);
  } catch (const Error& error) {
    place.refuse(without_stage(error));
  }
}

std::optional<QuantizationConfig> x86_config_at(const Place& place, const QuantizerOptions& overrides) {
  if (!is_object_or_null(place, kX86Keys)) return std::nullopt;
  if (place.has("preset")) {
    word_at(place.at("preset"), kPresets);
    if (place.value.size() > 1) place.refuse("a preset takes no further options");
    return get_x86_inductor_linear_dynamic_fp16_config();
  }
  X86InductorOptions options = default_x86_options(overrides);
  for (const BoolOption<X86InductorOptions>& option : kX86Bools)
    if (place.has(option.key)) options.*option.member = bool_at(place.at(option.key));
  if (place.has("weight_bits")) options.weight_bits = int_at(place.at("weight_bits"));
  if (place.has("group_size")) options.group_size = int_at(place.at("group_size"));
  read_observers(place, options);
  refuse_training(place);
  override_x86(options, overrides);
  try {
    return x86_config(options, overrides);
  } catch (const Error& error) {
    place.refuse(without_stage(error));
  }
}

std::optional<QuantizationConfig> embedding_config_at(const Place& place, const QuantizerOptions& overrides) {
  if (!is_object_or_null(place, kEmbeddingKeys)) return std::nullopt;
  int64_t bits = place.has("weight_bits") ? int_at(place.at("weight_bits")) : 8;
  bits = overrides.weight_bits.value_or(bits);
  try {
    return get_embedding_quantization_config(bits, overrides.compat());
  } catch (const Error& error) {
    place.refuse(without_stage(error));
  }
}

std::optional<QuantizationConfig> declared_config_at(const Place& place, const QuantizerOptions&) {
  if (!is_object_or_null(place, {})) return std::nullopt;
  return QuantizationConfig();
}

QuantizationConfig default_symmetric_config(const QuantizerOptions& overrides) {
  SymmetricOptions options = default_symmetric_options(overrides);
  options.is_per_channel = true;
  override_symmetric(options, overrides);
  return get_symmetric_quantization_config(options);
}

QuantizationConfig default_x86_config(const QuantizerOptions& overrides) {
  X86InductorOptions options = default_x86_options(overrides);
  override_x86(options, overrides);
  return x86_config(options, overrides);
}

QuantizationConfig default_embedding_config(const QuantizerOptions& overrides) {
  return get_embedding_quantization_config(overrides.weight_bits.value_or(8), overrides.compat());
}

}  // namespace octet
