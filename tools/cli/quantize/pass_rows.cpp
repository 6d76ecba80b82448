#include "tools/cli/quantize/pass_rows.h"

#include <algorithm>
#include <array>
#include <functional>
#include <set>
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
constexpr std::array<const char*, 6> kEffortKeys = {
    "global", "op_type", "module_type", "module_name_regex", "module_name", "call_index"};

std::vector<AccuracyPass> passes_at(const Place& place, const std::vector<AccuracyPass>& running) {
  if (!place.value.is_array()) place.want("a list of passes, [] for none");
  std::vector<std::string> known;
  for (const AccuracyPass pass : running) known.emplace_back(name_of(pass));
  std::vector<AccuracyPass> passes;
  for (size_t i = 0; i < place.value.size(); ++i) {
    const Place item = place.at(i);
    const auto found =
        std::ranges::find(known, item.value.is_string() ? item.value.get<std::string>() : "");
    if (found == known.end())
      item.want(
          fmt::format("a pass of this run, {}; --passes says which run", fmt::join(known, ", ")));
    passes.push_back(running[static_cast<size_t>(found - known.begin())]);
  }
  return passes;
}

// Reads "high", "none" or a list of passes.
std::vector<AccuracyPass> effort_at(const Place& place) {
  constexpr const char* kWanted = "\"high\", \"none\" or a list of passes";
  if (place.value.is_array()) {
    std::vector<AccuracyPass> passes;
    for (size_t i = 0; i < place.value.size(); ++i) {
      const Place item = place.at(i);
      if (!item.value.is_string()) item.want("the name of a pass");
      try {
        passes.push_back(
            parse_accuracy_passes({item.value.get<std::string>()}, item.text()).front());
      } catch (const Error&) {
        item.want(fmt::format("one of {}", fmt::join(accuracy_pass_names(), ", ")));
      }
    }
    if (passes.empty()) place.want(fmt::format("{} that is not empty", kWanted));
    return passes;
  }
  if (place.value == "high") return high_effort_passes();
  if (place.value == "none") return {};
  place.want(kWanted);
}

using ReadPasses = std::function<std::vector<AccuracyPass>(const Place& place)>;

void set_row(PassRows& rows, const RowKey& key, const Place& place, const ReadPasses& read) {
  std::vector<AccuracyPass> listed = read(place);
  try {
    rows.set(key, std::move(listed));
  } catch (const Error& error) {
    place.refuse(error.without_stage());
  }
}

Place object_at(const Place& place, const std::string& key, const char* wanted) {
  const Place found = place.at(key);
  if (!found.value.is_object()) found.want(wanted);
  return found;
}

// Reads the rows of modules, classes and ops, and the global row.
PassRows named_rows(const Place& place, const char* wanted, const ReadPasses& read) {
  PassRows rows;
  for (const RowKind kind : kNamedRows) {
    if (!place.has(name_of(kind))) continue;
    const Place table = object_at(place, name_of(kind), wanted);
    for (const auto& [name, value] : table.value.items())
      set_row(rows, {kind, name}, table.at(name), read);
  }
  if (place.has("global")) set_row(rows, {}, place.at("global"), read);
  return rows;
}

void add_calls(PassRows& rows, const Place& place, const ReadPasses& read) {
  if (!place.has(name_of(RowKind::kCallIndex))) return;
  constexpr const char* kWanted = "an object: module, op, number of the call";
  const Place modules = object_at(place, name_of(RowKind::kCallIndex), kWanted);
  for (const auto& [module, ops] : modules.value.items()) {
    const Place in_module = object_at(modules, module, kWanted);
    for (const auto& [op, calls] : ops.items()) {
      const Place of_op = object_at(in_module, op, kWanted);
      for (const auto& [index, value] : calls.items()) {
        const Place call = of_op.at(index);
        const bool is_number = !index.empty() && index.size() < 10 &&
                               index.find_first_not_of("0123456789") == std::string::npos;
        if (!is_number) call.refuse("is not the index of a call; count from 0");
        RowKey key;
        key.kind = RowKind::kCallIndex;
        key.call = {module, op, std::stoll(index)};
        set_row(rows, key, call, read);
      }
    }
  }
}

// Overrides rows of `under` by those of `more`.
Json on_top(Json under, const Json& more) {
  if (!under.is_object() || !more.is_object()) return more;
  for (const auto& [key, value] : more.items())
    under[key] = under.contains(key) ? on_top(under.at(key), value) : value;
  return under;
}

}  // namespace

void PassRows::set(const RowKey& row, std::vector<AccuracyPass> passes) {
  table_.set(row, QuantizationConfig());
  rows_.emplace_back(row, std::move(passes));
}

const std::vector<AccuracyPass>* PassRows::find(const Node& node) const {
  const std::optional<RowKey> key = table_.row_of(node);
  if (!key) return nullptr;
  const auto row =
      std::ranges::find_if(rows_, [&](const auto& known) { return known.first == *key; });
  return &row->second;
}

bool PassRows::applies(AccuracyPass pass, const Node& node) const {
  const std::vector<AccuracyPass>* row = find(node);
  return row == nullptr || std::ranges::find(*row, pass) != row->end();
}

std::vector<AccuracyPass> PassRows::all() const {
  std::set<AccuracyPass> passes;
  for (const auto& row : rows_) passes.insert(row.second.begin(), row.second.end());
  return {passes.begin(), passes.end()};
}

std::optional<PassRows> read_pass_rows(const std::filesystem::path& config,
                                       const std::vector<AccuracyPass>& running) {
  const Json json = load_settings(config);
  const Place root{json, config.string(), ""};
  if (!json.is_object() || !root.has("passes")) return std::nullopt;
  const Place passes = root.at("passes");
  if (running.empty())
    passes.refuse(
        "says where accuracy passes apply, but none runs; give --effort high or --passes "
        "to octet quantize, or leave it out");
  check_keys(passes, kKeys);
  return named_rows(passes, "an object of lists of passes",
                    [&](const Place& place) { return passes_at(place, running); });
}

std::optional<PassRows> read_effort_rows(const std::string& config, const std::string& settings) {
  Json whole = Json::object();
  if (!config.empty()) whole = load_settings(config);
  if (!settings.empty()) whole = on_top(std::move(whole), parse_settings(settings, "the settings"));
  const Place root{whole, config.empty() ? "the settings" : config, ""};
  if (!whole.is_object() || !root.has("effort")) return std::nullopt;
  const Place effort = root.at("effort");
  check_keys(effort, kEffortKeys);
  PassRows rows = named_rows(effort, "an object of rows, each with its effort", effort_at);
  add_calls(rows, effort, effort_at);
  return rows;
}

void refuse_pass_rows(const std::string& config) {
  if (config.empty()) return;
  read_pass_rows(config, {});
  if (!read_effort_rows(config, "")) return;
  const Json json = load_settings(config);
  Place{json, config, ""}.at("effort").refuse(
      "is for `octet quantize` and `octet tune`, which run accuracy passes; leave it out");
}

}  // namespace octet
