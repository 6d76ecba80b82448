#include "quantizers/json/quantizer.h"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "annotate/graph/opaque_parts.h"
#include "core/base/error.h"
#include "core/base/json_text.h"
#include "quantizers/compose/composable_quantizer.h"
#include "quantizers/compose/opaque_quantizer.h"
#include "quantizers/json/options.h"
#include "quantizers/json/patterns.h"
#include "quantizers/json/place.h"
#include "quantizers/json/specs.h"

namespace octet {

namespace {

constexpr std::array<const char*, 9> kBaseKeys = {"base",        "name",        "global",
                                                  "op_type",     "module_type", "module_name_regex",
                                                  "module_name", "call_index",  "opaque"};
constexpr std::array<const char*, 11> kDeclaredKeys = {
    "name",        "specs",      "patterns",    "sharing_ops",
    "global",      "op_type",    "module_type", "module_name_regex",
    "module_name", "call_index", "opaque"};
constexpr std::array<const char*, 8> kComposeKeys = {
    "compose",           "global",      "op_type",    "module_type",
    "module_name_regex", "module_name", "call_index", "opaque"};
constexpr std::array<const char*, 7> kConfigKeys = {
    "global", "op_type", "module_type", "module_name_regex", "module_name", "call_index", "opaque"};
// Keys of a --config file. "passes" and "effort" belong to accuracy passes
// (tools/cli/quantize/pass_rows.h).
constexpr std::array<const char*, 9> kConfigFileKeys = {
    "global", "op_type", "module_type", "module_name_regex", "module_name", "call_index",
    "opaque", "passes",  "effort"};
constexpr std::array<const char*, 3> kLaterKeys = {"quantizers", "module_name_object_type_order",
                                                   "observers"};
constexpr int kMaxFiles = 8;  // limit of files that refer to each other in "compose"

bool is_json_path(const std::string& text) {
  return text.ends_with(".json") || text.find('/') != std::string::npos;
}

bool is_base(const std::string& name) {
  const std::vector<std::string> names = base_names();
  return std::ranges::find(names, name) != names.end();
}

// Refuses options that are next to the settings instead of inside one.
void check_no_options(const Place& root, const std::string& base) {
  const std::vector<std::string> options = option_keys(base);
  for (const auto& [key, value] : root.value.items()) {
    if (std::ranges::find(options, key) == options.end()) continue;
    const std::string start = base.empty() ? "" : fmt::format("\"base\": \"{}\", ", base);
    root.at(key).want(fmt::format("it within a setting, e.g. {{{}\"global\": {{\"{}\": {}}}}}",
                                  start, key, value.is_structured() ? "..." : dump_json(value)));
  }
}

// ---- opaque parts: the key "opaque" at the top of each form of file and of --config
//
//   "opaque": [
//     {"module": "postprocess"},
//     {"module_type": "my.Decoder"},
//     {"op": "my_ns.nms.default", "recorded": true},
//     {"ops": ["aten.mul", "my_ns.gate.default"], "quantized_inputs": {"0": "act"},
//      "quantized_outputs": {"0": {"same_as": {"input": 0}}}},
//     {"module": "head", "quantizer": {"base": "x86", "global": {}}}
//   ]
//
// "quantizer" takes what "compose" takes: a name, a path, an object. A spec is given in place or by
// a name in the file's "specs"; it has a separate observer, is fixed, or shares that of an input of
// the part.

// Makes a quantizer from a name, a path or an object.
using QuantizerReaderFn = std::function<std::shared_ptr<Quantizer>(const Place&)>;

constexpr std::array<const char*, 8> kPartKeys = {
    "module",           "module_type",       "op",      "ops", "quantizer",
    "quantized_inputs", "quantized_outputs", "recorded"};
constexpr std::array<const char*, 1> kSameAsKeys = {"input"};
constexpr int64_t kMaxIndex = 9999;

BorderSpec border_spec_at(const Place& place, const SpecTable& specs) {
  if (place.value.is_object() && place.has("same_as") && place.at("same_as").value.is_object() &&
      place.at("same_as").has("input")) {
    if (place.value.size() > 1)
      place.refuse("a spec that shares an observer has no further fields");
    const Place same = place.at("same_as");
    check_keys(same, kSameAsKeys);
    return SameAsInput{static_cast<size_t>(int_in(same.at("input"), 0, kMaxIndex))};
  }
  const SlotSpec cell = cell_at(place, specs);
  if (const QuantizationSpec* own = std::get_if<QuantizationSpec>(&cell)) return *own;
  if (const FixedQParamsQuantizationSpec* fixed = std::get_if<FixedQParamsQuantizationSpec>(&cell))
    return *fixed;
  place.want("a spec with an observer, a fixed one, or {\"same_as\": {\"input\": 0}}");
}

std::map<size_t, BorderSpec> border_specs_at(const Place& place, const SpecTable& specs) {
  if (!place.value.is_object())
    place.want("an object of indices and specs, e.g. {\"0\": {\"dtype\": \"int8\", ...}}");
  std::map<size_t, BorderSpec> result;
  for (const auto& [key, value] : place.value.items()) {
    const auto index = static_cast<size_t>(index_of(place.at(key), key, 4, "tensor"));
    if (!result.emplace(index, border_spec_at(place.at(key), specs)).second)
      place.at(key).refuse("the index occurs twice");
  }
  return result;
}

std::vector<std::string> names_at(const Place& place) {
  if (!place.value.is_array() || place.value.empty())
    place.want("a list of ops, e.g. [\"aten.mul\", \"my_ns.gate.default\"]");
  std::vector<std::string> names;
  for (size_t i = 0; i < place.value.size(); ++i) names.push_back(string_at(place.at(i)));
  return names;
}

OpaquePart part_at(const Place& place, const SpecTable& specs,
                   const QuantizerReaderFn& read_quantizer) {
  if (!place.value.is_object())
    place.want(
        "an object such as {\"module\": \"postprocess\"} or {\"op\": \"my_ns.my_op.default\"}");
  check_keys(place, kPartKeys);
  OpaquePart part;
  part.place = place.text();
  if (place.has("module")) part.module = string_at(place.at("module"));
  if (place.has("module_type")) part.module_type = string_at(place.at("module_type"));
  if (place.has("op")) part.op = string_at(place.at("op"));
  if (place.has("ops")) part.ops = names_at(place.at("ops"));
  if (place.has("quantizer") && !place.at("quantizer").value.is_null())
    part.quantizer = read_quantizer(place.at("quantizer"));
  if (place.has("quantized_inputs"))
    part.quantized_inputs = border_specs_at(place.at("quantized_inputs"), specs);
  if (place.has("quantized_outputs"))
    part.quantized_outputs = border_specs_at(place.at("quantized_outputs"), specs);
  if (place.has("recorded")) part.is_recorded = bool_at(place.at("recorded"));
  try {
    check_opaque_part(part);
  } catch (const Error& error) {
    place.refuse(error.without_stage());
  }
  return part;
}

std::vector<OpaquePart> opaque_at(const Place& root, const QuantizerReaderFn& read_quantizer) {
  if (!root.has("opaque")) return {};
  const Place list = root.at("opaque");
  if (!list.value.is_array()) list.want("a list of parts, e.g. [{\"module\": \"postprocess\"}]");
  const SpecTable specs = root.has("specs") ? specs_at(root.at("specs")) : SpecTable();
  std::vector<OpaquePart> parts;
  for (size_t i = 0; i < list.value.size(); ++i)
    parts.push_back(part_at(list.at(i), specs, read_quantizer));
  return parts;
}

// ---- files

class QuantizerReader {
 public:
  explicit QuantizerReader(const QuantizerOptions& options) : options_(options) {}

  QuantizerParts read_file(const std::filesystem::path& path) {
    if (++open_files_ > kMaxFiles)
      throw Error("quantizer", path.string(),
                  fmt::format("files compose each other more than {} deep", kMaxFiles));
    const Json json = load_settings(path);
    QuantizerParts parts = read({json, path.string(), ""});
    --open_files_;
    return parts;
  }

  QuantizerParts read(const Place& root) {
    if (!root.value.is_object()) root.want("an object");
    if (root.has("compose")) return composed(root);
    QuantizerParts parts;
    parts.push_back(root.has("patterns") ? declared(root) : based(root));
    add_opaque(root, parts);
    return parts;
  }

  void add_opaque(const Place& root, QuantizerParts& parts) {
    std::vector<OpaquePart> opaque = opaque_at(root, [&](const Place& place) {
      return std::shared_ptr<Quantizer>(to_one(element(place)));
    });
    std::vector<OpaquePart>& known = parts.front().opaque;
    known.insert(known.end(), std::make_move_iterator(opaque.begin()),
                 std::make_move_iterator(opaque.end()));
  }

 private:
  QuantizerPart based(const Place& root) {
    const std::vector<std::string> names = base_names();
    const std::string named = root.has("base") && root.at("base").value.is_string()
                                  ? root.at("base").value.get<std::string>()
                                  : "";
    if (is_base(named)) check_no_options(root, named);
    check_keys(root, kBaseKeys, kLaterKeys);
    if (!root.has("base"))
      root.refuse(fmt::format("has no \"base\", want one of {}; or \"compose\", or \"patterns\"",
                              fmt::join(names, ", ")));
    const std::string base = word_at(root.at("base"), names);
    if (options_.compat == Compat::kNone &&
        std::ranges::none_of(kConfigKeys, [&](const char* key) { return root.has(key); }))
      root.refuse(
          fmt::format("configures nothing, want at least one of {}", fmt::join(kConfigKeys, ", ")));
    QuantizerPart result =
        make_base(base, root.has("name") ? string_at(root.at("name")) : base, options_);
    result.set_rows(root);
    return result;
  }

  QuantizerPart declared(const Place& root) {
    check_keys(root, kDeclaredKeys, kLaterKeys);
    QuantizerPart result = make_declared(declared_backend_at(root), options_);
    result.set_rows(root);
    return result;
  }

  QuantizerParts composed(const Place& root) {
    check_no_options(root, "");
    check_keys(root, kComposeKeys, kLaterKeys);
    const Place list = root.at("compose");
    if (!list.value.is_array() || list.value.empty()) list.want("a list of quantizers");
    QuantizerParts parts;
    for (size_t i = 0; i < list.value.size(); ++i) {
      QuantizerParts more = element(list.at(i));
      parts.insert(parts.end(), std::make_move_iterator(more.begin()),
                   std::make_move_iterator(more.end()));
    }
    for (const QuantizerPart& part : parts) part.set_rows(root);
    add_opaque(root, parts);
    return parts;
  }

  QuantizerParts element(const Place& place) {
    if (place.value.is_object()) return read(place);
    const std::string name =
        place.value.is_string() ? place.value.get<std::string>() : std::string();
    if (is_base(name)) {
      QuantizerParts parts;
      parts.push_back(make_built_in(name, options_));
      return parts;
    }
    if (!is_json_path(name))
      place.want(fmt::format("one of {}, the path of a .json file, or an object",
                             fmt::join(base_names(), ", ")));
    const std::filesystem::path path = std::filesystem::path(place.file).parent_path() / name;
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(path, ignored))
      place.want(
          fmt::format("the path of a JSON file beside this one; there is no {}", path.string()));
    return read_file(path);
  }

  const QuantizerOptions& options_;
  int open_files_ = 0;
};

}  // namespace

QuantizerParts read_quantizers(const std::string& name_or_path, const QuantizerOptions& options) {
  if (is_base(name_or_path)) {
    QuantizerParts parts;
    parts.push_back(make_built_in(name_or_path, options));
    return parts;
  }
  if (is_json_path(name_or_path)) return QuantizerReader(options).read_file(name_or_path);
  throw Error("quantizer", fmt::format("\"{}\"", name_or_path),
              fmt::format("not in this build, want {} or the path of a .json file",
                          fmt::join(base_names(), ", ")));
}

QuantizerParts parse_quantizers(const std::string& json, const std::string& file,
                                const QuantizerOptions& options) {
  const Json parsed = parse_settings(json, file);
  return QuantizerReader(options).read({parsed, file, ""});
}

namespace {

void apply_rows(QuantizerParts& parts, const Place& root, const QuantizerOptions& options) {
  if (root.value.is_object()) check_no_options(root, "");
  check_keys(root, kConfigFileKeys, kLaterKeys);
  for (const QuantizerPart& part : parts) part.set_rows(root);
  QuantizerReader(options).add_opaque(root, parts);
}

}  // namespace

void apply_json_config(QuantizerParts& parts, const std::filesystem::path& path,
                       const QuantizerOptions& options) {
  const Json json = load_settings(path);
  apply_rows(parts, {json, path.string(), ""}, options);
}

void apply_json_config(QuantizerParts& parts, const std::string& text, const std::string& name,
                       const QuantizerOptions& options) {
  const Json json = parse_settings(text, name);
  apply_rows(parts, {json, name, ""}, options);
}

std::unique_ptr<Quantizer> to_one(QuantizerParts parts) {
  OCTET_ASSERT(!parts.empty(), "no quantizer");
  std::vector<OpaquePart> opaque;
  for (QuantizerPart& part : parts)
    opaque.insert(opaque.end(), std::make_move_iterator(part.opaque.begin()),
                  std::make_move_iterator(part.opaque.end()));
  std::unique_ptr<Quantizer> result = std::move(parts.front().quantizer);
  if (parts.size() > 1) {
    std::vector<std::unique_ptr<Quantizer>> quantizers = {};
    quantizers.push_back(std::move(result));
    for (size_t i = 1; i < parts.size(); ++i) quantizers.push_back(std::move(parts[i].quantizer));
    result = std::make_unique<ComposableQuantizer>(std::move(quantizers));
  }
  if (!opaque.empty())
    result = std::make_unique<OpaqueQuantizer>(std::move(result), std::move(opaque));
  return result;
}

}  // namespace octet
