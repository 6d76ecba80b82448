// The base quantizers, one row per name, and how settings of a file apply to them.
#include "quantizers/json/quantizer.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "quantizers/cache/quantizer.h"
#include "quantizers/common/configurable_quantizer.h"
#include "quantizers/embedding/quantizer.h"
#include "quantizers/json/options.h"
#include "quantizers/x86/quantizer.h"
#include "quantizers/xnnpack/quantizer.h"

namespace octet {

namespace {

using Config = std::optional<QuantizationConfig>;

// The rows whose keys are names.
constexpr std::array<RowKind, 4> kNamedRows = {RowKind::kOpType, RowKind::kModuleType,
                                               RowKind::kModuleName, RowKind::kModuleNameRegex};

// Checks that an object's keys are names; "" only with `allows_empty`.
void check_names(const Place& rows, bool allows_empty = false) {
  if (!rows.value.is_object()) rows.want("an object of names and options");
  for (const auto& [key, value] : rows.value.items()) {
    if (key.empty() && !allows_empty)
      rows.at(key).refuse(
          "the name is empty, want e.g. \"block.conv\"; use \"global\" for the whole model");
    if (std::ranges::any_of(key, [](unsigned char c) { return c < ' '; }))
      rows.at(key).refuse("the name has a control character");
  }
}

// {"block": {"aten.linear.default": {"1": null}}}
template <typename Set>
void read_calls(const Place& modules, const Set& set) {
  check_names(modules, true);
  for (const auto& [module, in_module] : modules.value.items()) {
    const Place ops = modules.at(module);
    if (!ops.value.is_object())
      ops.want("an object of ops, e.g. {\"aten.linear.default\": {\"0\": null}}");
    check_names(ops);
    for (const auto& [op, of_op] : ops.value.items()) {
      const Place indices = ops.at(op);
      if (!indices.value.is_object()) indices.want("an object of indices, e.g. {\"0\": null}");
      for (const auto& [index, config] : indices.value.items()) {
        const Place row = indices.at(index);
        set(row, CallIndex{module, op, index_of(row, index, 9, "call")});
      }
    }
  }
}

// Sets one row of a quantizer, with its place in the file, and adds that place to the quantizer's
// errors.
void set_at(const Place& place, ConfigurableQuantizer& target, const RowKey& row, Config config) {
  try {
    target.set_row(row, std::move(config), place.text());
  } catch (const Error& error) {
    place.refuse(error.without_stage());
  }
}

QuantizerPart configurable(std::unique_ptr<ConfigurableQuantizer> quantizer,
                           const ConfigReader& read, const QuantizerOptions& options,
                           std::vector<std::string> overrides) {
  ConfigurableQuantizer* target = quantizer.get();
  const auto set_rows = [target, read, options](const Place& root) {
    if (root.has("global"))
      set_at(root.at("global"), *target, {}, read(root.at("global"), options));
    for (RowKind kind : kNamedRows) {
      if (!root.has(name_of(kind))) continue;
      const Place rows = root.at(name_of(kind));
      check_names(rows);
      for (const auto& [name, value] : rows.value.items())
        set_at(rows.at(name), *target, {kind, name}, read(rows.at(name), options));
    }
    if (!root.has("call_index")) return;
    read_calls(root.at("call_index"), [&](const Place& row, const CallIndex& call) {
      set_at(row, *target, {RowKind::kCallIndex, {}, call}, read(row, options));
    });
  };
  return {
      .quantizer = std::move(quantizer), .set_rows = set_rows, .overrides = std::move(overrides)};
}

QuantizerPart make_xnnpack(const std::string& name, const QuantizerOptions& options) {
  return configurable(std::make_unique<XNNPACKQuantizer>(options.compat, name), symmetric_config_at,
                      options,
                      {"is_per_channel", "is_dynamic", "is_weight_only", "weight_bits",
                       "activation_bits", "group_size", "reduce_range"});
}

QuantizerPart make_x86(const std::string& name, const QuantizerOptions& options) {
  return configurable(std::make_unique<X86InductorQuantizer>(options.compat, name), x86_config_at,
                      options,
                      {"is_dynamic", "is_weight_only", "weight_bits", "activation_bits",
                       "group_size", "reduce_range"});
}

// Supports the modes trivially, since activations always stay float.
QuantizerPart make_embedding(const std::string& name, const QuantizerOptions& options) {
  std::unique_ptr<EmbeddingQuantizer> quantizer =
      std::make_unique<EmbeddingQuantizer>(options.compat, name);
  quantizer->set_global(std::nullopt);
  QuantizerPart result = configurable(std::move(quantizer), embedding_config_at, options,
                                      {"is_dynamic", "is_weight_only", "weight_bits"});
  result.unaffected = {"reduce_range"};
  return result;
}

// Equal in all modes, since rows are quantized at run time.
QuantizerPart make_kv_cache(const std::string& name, const QuantizerOptions& options) {
  if (options.compat == Compat::kTorchao)
    throw Error("quantizer", name, "torchao has no such quantizer; leave out --compat torchao");
  if (options.is_qat)
    throw Error("quantizer", name, "does not train; leave it out, and quantize the trained model");
  std::unique_ptr<KvCacheQuantizer> quantizer = std::make_unique<KvCacheQuantizer>(name);
  quantizer->set_global(std::nullopt);
  QuantizerPart result = configurable(std::move(quantizer), kv_cache_config_at, options,
                                      {"is_dynamic", "is_weight_only"});
  result.unaffected = {"reduce_range"};
  return result;
}

// Reads the configurations of a declared backend or of a registered quantizer.
QuantizerPart with_own_configs(std::unique_ptr<ConfigurableQuantizer> quantizer,
                               const QuantizerOptions& options) {
  const auto read = [configs = quantizer->configs()](const Place& place, const QuantizerOptions&) {
    return dtype_config_at(place, configs);
  };
  return configurable(std::move(quantizer), read, options, {});
}

struct Base {
  const char* name;
  QuantizerPart (*make)(const std::string& name, const QuantizerOptions& options);
  QuantizationConfig (*default_config)(const QuantizerOptions& options);
};
constexpr std::array<Base, 5> kBases = {{{"embedding", make_embedding, default_embedding_config},
                                         {"kv_cache", make_kv_cache, default_kv_cache_config},
                                         {"qnnpack", make_xnnpack, default_symmetric_config},
                                         {"x86", make_x86, default_x86_config},
                                         {"xnnpack", make_xnnpack, default_symmetric_config}}};

struct RegisteredBase {
  std::string name;
  std::function<std::unique_ptr<Quantizer>(const QuantizerOptions&)> make;
};

std::vector<RegisteredBase>& registered_bases() {
  static std::vector<RegisteredBase> all;
  return all;
}

const RegisteredBase* find_registered(const std::string& name) {
  for (const RegisteredBase& base : registered_bases())
    if (base.name == name) return &base;
  return nullptr;
}

QuantizerPart make_registered(const RegisteredBase& base, const QuantizerOptions& options) {
  std::unique_ptr<Quantizer> quantizer = base.make(options);
  if (!quantizer)
    throw Error("quantizer", fmt::format("\"{}\"", base.name),
                "its function returned no quantizer; return one or throw an Error");
  // a composition has the names of its quantizers
  if (const std::string name = quantizer->name();
      name != base.name && name.find(',') == std::string::npos)
    throw Error("quantizer", fmt::format("\"{}\"", base.name),
                fmt::format("its name() is \"{}\", want the registered name", name));
  ConfigurableQuantizer* own = dynamic_cast<ConfigurableQuantizer*>(quantizer.get());
  if (own == nullptr) return with_own_configs(with_settings(std::move(quantizer)), options);
  quantizer.release();
  return with_own_configs(std::unique_ptr<ConfigurableQuantizer>(own), options);
}

const Base& base_of(const std::string& name) {
  const auto found =
      std::ranges::find_if(kBases, [&](const Base& base) { return name == base.name; });
  OCTET_ASSERT(found != kBases.end(), name);
  return *found;
}

struct Override {
  const char* name;
  bool (*is_set)(const QuantizerOptions&);
  bool is_mode;  // all parts must support it, except those that it does not concern
};
constexpr std::array<Override, 7> kOverrides = {
    {{"is_per_channel",
      [](const QuantizerOptions& options) { return options.is_per_channel.has_value(); }, false},
     {"is_dynamic", [](const QuantizerOptions& options) { return options.is_dynamic.has_value(); },
      true},
     {"is_weight_only",
      [](const QuantizerOptions& options) { return options.is_weight_only.has_value(); }, true},
     {"weight_bits",
      [](const QuantizerOptions& options) { return options.weight_bits.has_value(); }, false},
     {"activation_bits",
      [](const QuantizerOptions& options) { return options.activation_bits.has_value(); }, false},
     {"group_size", [](const QuantizerOptions& options) { return options.group_size.has_value(); },
      false},
     {"reduce_range",
      [](const QuantizerOptions& options) { return options.reduce_range.has_value(); }, true}}};

bool contains(const std::vector<std::string>& names, const char* name) {
  return std::ranges::find(names, name) != names.end();
}

[[noreturn]] void refuse_override(const QuantizerPart& part, const std::string& option) {
  std::string has = fmt::format("{}", fmt::join(part.overrides, ", "));
  if (part.overrides.empty()) has = "none, because its file defines everything";
  if (part.overrides.empty() && option == "reduce_range")
    has += "; give its specs a narrower quant_min and quant_max";
  throw Error("quantizer", part.quantizer->name(),
              fmt::format("got the option {}, want one of its options: {}", option, has));
}

}  // namespace

std::vector<std::string> base_names() {
  std::vector<std::string> names;
  for (const Base& base : kBases) names.emplace_back(base.name);
  for (const RegisteredBase& base : registered_bases()) names.push_back(base.name);
  return names;
}

void register_base(const std::string& name,
                   std::function<std::unique_ptr<Quantizer>(const QuantizerOptions&)> maker) {
  const std::string subject = fmt::format("\"{}\"", name);
  if (name.empty() || name.find_first_of(",/ \n") != std::string::npos || name.ends_with(".json"))
    throw Error("quantizer", subject,
                "cannot be the name of a quantizer, want one without comma, slash and space that "
                "does not end in .json");
  if (!maker) throw Error("quantizer", subject, "got no function that makes it; register one");
  const std::vector<std::string> names = base_names();
  if (std::ranges::find(names, name) != names.end())
    throw Error("quantizer", subject, "the name is taken; choose another one");
  registered_bases().push_back({name, std::move(maker)});
}

QuantizerPart make_base(const std::string& base, const std::string& name,
                        const QuantizerOptions& options) {
  if (const RegisteredBase* registered = find_registered(base)) {
    if (name != base)
      throw Error("quantizer", fmt::format("\"{}\"", name),
                  fmt::format("the quantizer {} names itself; leave the \"name\" out", base));
    return make_registered(*registered, options);
  }
  return base_of(base).make(name, options);
}

QuantizerPart make_built_in(const std::string& base, const QuantizerOptions& options) {
  if (const RegisteredBase* registered = find_registered(base))
    return make_registered(*registered, options);
  QuantizerOptions own = options;
  own.rows_are_per_channel = options.compat == Compat::kNone;
  QuantizerPart result = make_base(base, base, own);
  static_cast<ConfigurableQuantizer&>(*result.quantizer)
      .set_row({}, base_of(base).default_config(options));
  return result;
}

QuantizerPart make_declared(DeclaredBackend backend, const QuantizerOptions& options) {
  return with_own_configs(std::make_unique<DeclaredQuantizer>(std::move(backend), options.compat),
                          options);
}

void check_overrides(const QuantizerParts& parts, const QuantizerOptions& options) {
  if (options.reduce_range.value_or(false) && options.is_weight_only.value_or(false))
    throw Error("quantizer", "reduce_range",
                "got true together with is_weight_only, want one of them; activations stay float");
  for (const Override& override : kOverrides) {
    if (!override.is_set(options)) continue;
    const auto heeds = [&](const QuantizerPart& part) {
      return contains(part.overrides, override.name);
    };
    const auto is_deaf = [&](const QuantizerPart& part) {
      return !heeds(part) && !contains(part.unaffected, override.name);
    };
    const bool one_heeds = std::ranges::any_of(parts, heeds);
    const QuantizerParts::const_iterator deaf = std::ranges::find_if(parts, is_deaf);
    if (one_heeds && (!override.is_mode || deaf == parts.end())) continue;
    refuse_override(deaf == parts.end() ? parts.front() : *deaf, override.name);
  }
}

}  // namespace octet
