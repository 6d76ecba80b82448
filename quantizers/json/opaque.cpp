#include "quantizers/json/opaque.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "core/base/error.h"
#include "quantizers/json/specs.h"

namespace octet {

namespace {

constexpr std::array<const char*, 8> kPartKeys = {
    "module",           "module_type",       "op",      "ops", "quantizer",
    "quantized_inputs", "quantized_outputs", "recorded"};
constexpr std::array<const char*, 1> kSameAsKeys = {"input"};
constexpr int64_t kMaxIndex = 9999;

size_t spec_index(const Place& place, const std::string& key) {
  constexpr size_t kMaxDigits = 4;
  if (key.empty() || key.size() > kMaxDigits ||
      !std::all_of(key.begin(), key.end(), [](char c) { return c >= '0' && c <= '9'; }))
    place.refuse(
        "the key is not an index, want the number of the tensor as a string, \"0\" for the first");
  return static_cast<size_t>(std::stoul(key));
}

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
    const size_t index = spec_index(place.at(key), key);
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

}  // namespace

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

}  // namespace octet
