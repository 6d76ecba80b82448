#include "tools/quantize/pass_rows.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "quantizers/json/place.h"

namespace octet {
namespace {

constexpr RowKind kNamedRows[] = {RowKind::kOpType, RowKind::kModuleType, RowKind::kModuleNameRegex,
                                  RowKind::kModuleName};
constexpr std::array<const char*, 5> kKeys = {"global", "op_type", "module_type",
                                              "module_name_regex", "module_name"};

std::vector<AccuracyPass> passes_at(const Place& place, const std::vector<AccuracyPass>& running) {
  if (!place.value.is_array()) place.want("a list of passes, [] for none");
  std::vector<std::string> known;
  for (const AccuracyPass pass : running) known.emplace_back(name_of(pass));
  std::vector<AccuracyPass> passes;
  for (size_t i = 0; i < place.value.size(); ++i) {
    const Place item = place.at(i);
    const auto found = std::find(known.begin(), known.end(),
                                 item.value.is_string() ? item.value.get<std::string>() : "");
    if (found == known.end())
      item.want(
          fmt::format("a pass of this run, {}; --passes says which run", fmt::join(known, ", ")));
    passes.push_back(running[static_cast<size_t>(found - known.begin())]);
  }
  return passes;
}

}  // namespace

void PassRows::set(const RowKey& row, std::vector<AccuracyPass> passes) {
  table_.set(row, QuantizationConfig());
  rows_.emplace_back(row, std::move(passes));
}

bool PassRows::applies(AccuracyPass pass, const Node& node) const {
  const std::optional<RowKey> key = table_.row_of(node);
  if (!key) return true;
  const auto row = std::find_if(rows_.begin(), rows_.end(),
                                [&](const auto& known) { return known.first == *key; });
  return std::find(row->second.begin(), row->second.end(), pass) != row->second.end();
}

std::optional<PassRows> read_pass_rows(const std::filesystem::path& config,
                                       const std::vector<AccuracyPass>& running) {
  const Json json = load_json(config);
  const Place root{json, config.string(), ""};
  if (!json.is_object() || !root.has("passes")) return std::nullopt;
  const Place passes = root.at("passes");
  if (running.empty())
    passes.refuse(
        "says where accuracy passes apply, but none runs; give --effort high or --passes "
        "to octet quantize, or leave it out");
  check_keys(passes, kKeys);
  PassRows rows;
  for (const RowKind kind : kNamedRows) {
    if (!passes.has(name_of(kind))) continue;
    const Place table = passes.at(name_of(kind));
    if (!table.value.is_object()) table.want("an object of lists of passes");
    for (const auto& [name, value] : table.value.items()) {
      const Place place = table.at(name);
      std::vector<AccuracyPass> listed = passes_at(place, running);
      try {
        rows.set({kind, name}, std::move(listed));
      } catch (const Error& error) {
        place.refuse(error.without_stage());
      }
    }
  }
  if (passes.has("global")) rows.set({}, passes_at(passes.at("global"), running));
  return rows;
}

}  // namespace octet
