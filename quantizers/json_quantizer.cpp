// Reads and checks the JSON forms.
#include "quantizers/json_quantizer.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <span>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace octet {

namespace {

using Json = nlohmann::ordered_json;  // the order of the rows counts in compat mode

constexpr size_t kShownLength = 60;  // of a wrong value in a message
constexpr std::array<const char*, 2> kBases = {"xnnpack", "qnnpack"};
constexpr std::array<const char*, 6> kFileKeys = {"base", "name", "global", "op_type", "module_type", "module_name"};
constexpr std::array<const char*, 4> kConfigKeys = {"global", "op_type", "module_type", "module_name"};
constexpr std::array<const char*, 10> kLaterKeys = {
    "specs",    "patterns", "compose", "quantizers", "module_name_regex", "call_index", "opaque", "constraints", "module_name_object_type_order",
    "observers"};

// A value with its file and its path in it, for messages.
struct Place {
  const Json& value;
  std::string file;
  std::string path;

  Place at(const std::string& key) const {
    std::string escaped;
    for (char c : key) escaped += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
    return {value.at(key), file, path + "/" + escaped};
  }
  [[noreturn]] void refuse(const std::string& message) const {
    throw Error("quantizer", fmt::format("{}: {}", file, path.empty() ? "/" : path), message);
  }
  [[noreturn]] void want(const std::string& wanted) const { refuse(fmt::format("got {}, want {}", shown(), wanted)); }
  std::string shown() const {
    std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
    return text.size() > kShownLength ? text.substr(0, kShownLength) + "..." : text;
  }
};

Json load(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::stringstream text;
  if (!stream || !(text << stream.rdbuf())) throw Error("quantizer", path.string(), "cannot be read, want a JSON file; check the path");
  try {
    return Json::parse(text.str());
  } catch (const Json::parse_error& error) {
    throw Error("quantizer", path.string(), fmt::format("not JSON, got a syntax error at byte {}", error.byte));
  }
}

void check_keys(const Place& place, std::span<const char* const> allowed) {
  if (!place.value.is_object()) place.want("an object");
  for (const auto& [key, value] : place.value.items()) {
    const std::string& name = key;
    const auto same = [&](const char* known) { return name == known; };
    if (std::any_of(allowed.begin(), allowed.end(), same)) continue;
    const Place child = place.at(name);
    if (std::any_of(kLaterKeys.begin(), kLaterKeys.end(), same))
      child.refuse(fmt::format("\"{}\" is not in this build, want one of {}", name, fmt::join(allowed, ", ")));
    child.refuse(fmt::format("unknown key, want one of {}", fmt::join(allowed, ", ")));
  }
}

bool bool_at(const Place& place) {
  if (!place.value.is_boolean()) place.want("true or false");
  return place.value.get<bool>();
}

int64_t int_at(const Place& place) {
  if (!place.value.is_number_integer()) place.want("an int");
  return place.value.get<int64_t>();
}

struct BoolOption {
  const char* key;
  bool SymmetricOptions::*member;
};
struct IntOption {
  const char* key;
  int64_t SymmetricOptions::*member;
};
constexpr std::array<BoolOption, 4> kBoolOptions = {
    {{"is_per_channel", &SymmetricOptions::is_per_channel},
     {"is_dynamic", &SymmetricOptions::is_dynamic},
     {"is_weight_only", &SymmetricOptions::is_weight_only},
     {"is_per_token", &SymmetricOptions::is_per_token}}
};
constexpr std::array<IntOption, 5> kIntOptions = {
    {{"act_qmin", &SymmetricOptions::act_qmin},
     {"act_qmax", &SymmetricOptions::act_qmax},
     {"weight_qmin", &SymmetricOptions::weight_qmin},
     {"weight_qmax", &SymmetricOptions::weight_qmax},
     {"weight_bits", &SymmetricOptions::weight_bits}}
};
constexpr std::array<const char*, 11> kOptionKeys = {"is_per_channel", "is_dynamic",  "is_qat",         "act_qmin",     "act_qmax",  "weight_qmin",
                                                     "weight_qmax",    "weight_bits", "is_weight_only", "is_per_token", "group_size"};

std::optional<QuantizationConfig> config_at(const Place& place, const QuantizerOptions& overrides) {
  if (place.value.is_null()) return std::nullopt;
  if (!place.value.is_object()) place.want("an object of options, or null to leave it float");
  check_keys(place, kOptionKeys);
  SymmetricOptions options = default_symmetric_options(overrides);
  for (const BoolOption& option : kBoolOptions)
    if (place.value.contains(option.key)) options.*option.member = bool_at(place.at(option.key));
  for (const IntOption& option : kIntOptions)
    if (place.value.contains(option.key)) options.*option.member = int_at(place.at(option.key));
  if (place.value.contains("group_size")) options.group_size = int_at(place.at("group_size"));
  if (place.value.contains("is_qat") && bool_at(place.at("is_qat")))
    place.at("is_qat").refuse("got true, want false; training with fake quantization is not in this build");
  apply_overrides(options, overrides);
  try {
    return get_symmetric_quantization_config(options);
  } catch (const Error& error) {
    const std::string text = error.what();  // "quantizer: act_qmin .. act_qmax: ...": the place in the file stands instead of the stage
    place.refuse(text.substr(text.find(": ") + 2));
  }
}

using Setter = XNNPACKQuantizer& (XNNPACKQuantizer::*)(const std::string&, std::optional<QuantizationConfig>);
struct RowKind {
  const char* key;
  Setter set;
};
const std::array<RowKind, 3> kRowKinds = {
    {{"op_type", &XNNPACKQuantizer::set_operator_type},
     {"module_type", &XNNPACKQuantizer::set_module_type},
     {"module_name", &XNNPACKQuantizer::set_module_name}}
};

void apply(XNNPACKQuantizer& quantizer, const Place& root, const QuantizerOptions& options) {
  if (root.value.contains("global")) quantizer.set_global(config_at(root.at("global"), options));
  for (const RowKind& kind : kRowKinds) {
    if (!root.value.contains(kind.key)) continue;
    const Place rows = root.at(kind.key);
    if (!rows.value.is_object()) rows.want("an object of names and options");
    for (const auto& [key, value] : rows.value.items()) {
      const Place row = rows.at(key);
      if (key.empty()) row.refuse("the name is empty, want e.g. \"block.conv\"; use \"global\" for the whole model");
      (quantizer.*kind.set)(key, config_at(row, options));
    }
  }
}

bool has_any_row(const Json& root) {
  return std::any_of(kConfigKeys.begin(), kConfigKeys.end(), [&](const char* key) { return root.contains(key); });
}

}  // namespace

SymmetricOptions default_symmetric_options(const QuantizerOptions& options) {
  SymmetricOptions symmetric;
  symmetric.is_per_token = !options.compat_torchao;
  return symmetric;
}

void apply_overrides(SymmetricOptions& symmetric, const QuantizerOptions& options) {
  symmetric.is_per_channel = options.is_per_channel.value_or(symmetric.is_per_channel);
  symmetric.is_dynamic = options.is_dynamic.value_or(symmetric.is_dynamic);
  symmetric.is_weight_only = options.is_weight_only.value_or(symmetric.is_weight_only);
  symmetric.weight_bits = options.weight_bits.value_or(symmetric.weight_bits);
  if (options.group_size) symmetric.group_size = options.group_size;
}

std::unique_ptr<XNNPACKQuantizer> read_json_quantizer(const std::filesystem::path& path, const QuantizerOptions& options) {
  const Json json = load(path);
  const Place root{json, path.string(), ""};
  check_keys(root, kFileKeys);
  if (!json.contains("base")) root.refuse(fmt::format("has no \"base\", want one of {}", fmt::join(kBases, ", ")));
  const Place base = root.at("base");
  const auto same = [&](const char* known) { return base.value == known; };
  if (std::none_of(kBases.begin(), kBases.end(), same)) base.want(fmt::format("one of {}", fmt::join(kBases, ", ")));
  if (!has_any_row(json)) root.refuse(fmt::format("configures nothing, want at least one of {}", fmt::join(kConfigKeys, ", ")));
  std::unique_ptr<XNNPACKQuantizer> quantizer =
      std::make_unique<XNNPACKQuantizer>(options.compat_torchao ? Compat::kTorchao : Compat::kNone, base.value.get<std::string>());
  apply(*quantizer, root, options);
  return quantizer;
}

void apply_json_config(XNNPACKQuantizer& quantizer, const std::filesystem::path& path, const QuantizerOptions& options) {
  const Json json = load(path);
  const Place root{json, path.string(), ""};
  check_keys(root, kConfigKeys);
  apply(quantizer, root, options);
}

}  // namespace octet
