#include "tools/quantize/pass_rows.h"

#include <algorithm>
#include <array>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "quantizers/common/module_filter.h"
#include "quantizers/json/place.h"

namespace octet {
namespace {

struct KindRow {
  PassRows::Kind kind;
  const char* key;
  NodeFilter (*fits)(const std::string& key);
};

NodeFilter fits_module_name(const std::string& key) {
  return [key](const Node& node) { return is_in_module(node, key); };
}

NodeFilter fits_module_regex(const std::string& key) {
  return [regex = std::make_shared<ModuleRegex>(key)](const Node& node) {
    return is_in_module_like(node, *regex);
  };
}

NodeFilter fits_module_type(const std::string& key) {
  return [key](const Node& node) { return is_in_module_type(node, key); };
}

NodeFilter fits_op_type(const std::string& key) {
  return [key](const Node& node) { return is_op_type(node, key); };
}

// The strongest first.
constexpr std::array<KindRow, 4> kKinds = {
    {{PassRows::Kind::kModuleName, "module_name", fits_module_name},
     {PassRows::Kind::kModuleRegex, "module_name_regex", fits_module_regex},
     {PassRows::Kind::kModuleType, "module_type", fits_module_type},
     {PassRows::Kind::kOpType, "op_type", fits_op_type}}
};
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

bool is_stronger(const PassRows::Row& a, const PassRows::Row& b) {
  if (a.kind != b.kind) return a.kind < b.kind;
  return a.kind == PassRows::Kind::kModuleName && a.key.size() > b.key.size();
}

}  // namespace

bool PassRows::applies(AccuracyPass pass, const Node& node) const {
  const Row* strongest = nullptr;
  for (const Row& row : rows_)
    if (row.fits(node) && (strongest == nullptr || is_stronger(row, *strongest))) strongest = &row;
  return strongest == nullptr || std::find(strongest->passes.begin(), strongest->passes.end(),
                                           pass) != strongest->passes.end();
}

std::vector<std::string> PassRows::unused_rows(const Graph& graph) const {
  std::vector<std::string> unused;
  const std::vector<Node*> nodes = graph.nodes();
  for (const Row& row : rows_) {
    if (std::any_of(nodes.begin(), nodes.end(), [&](const Node* node) { return row.fits(*node); }))
      continue;
    const auto kind = std::find_if(kKinds.begin(), kKinds.end(),
                                   [&](const KindRow& known) { return known.kind == row.kind; });
    unused.push_back(describe_row(kind->key, row.key));
  }
  return unused;
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
  std::vector<PassRows::Row> rows;
  for (const KindRow& kind : kKinds) {
    if (!passes.has(kind.key)) continue;
    const Place table = passes.at(kind.key);
    if (!table.value.is_object()) table.want("an object of lists of passes");
    for (const auto& [key, value] : table.value.items())
      rows.push_back({kind.kind, key, passes_at(table.at(key), running), kind.fits(key)});
  }
  if (passes.has("global"))
    rows.push_back({PassRows::Kind::kGlobal, "", passes_at(passes.at("global"), running),
                    [](const Node&) { return true; }});
  return PassRows(std::move(rows));
}

}  // namespace octet
