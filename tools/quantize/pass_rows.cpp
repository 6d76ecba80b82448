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
  RowKind kind;
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

constexpr std::array<KindRow, 4> kKinds = {
    {{RowKind::kOpType, fits_op_type},
     {RowKind::kModuleType, fits_module_type},
     {RowKind::kModuleNameRegex, fits_module_regex},
     {RowKind::kModuleName, fits_module_name}}
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

bool is_stronger(const RowKey& a, const RowKey& b) {
  if (a.kind != b.kind) return a.kind > b.kind;
  return a.kind == RowKind::kModuleName && a.name.size() > b.name.size();
}

}  // namespace

bool PassRows::applies(AccuracyPass pass, const Node& node) const {
  const Row* strongest = nullptr;
  for (const Row& row : rows_)
    if (row.fits(node) && (strongest == nullptr || is_stronger(row.key, strongest->key)))
      strongest = &row;
  return strongest == nullptr || std::find(strongest->passes.begin(), strongest->passes.end(),
                                           pass) != strongest->passes.end();
}

std::vector<std::string> PassRows::unused_rows(const Graph& graph) const {
  std::vector<std::string> unused;
  const std::vector<Node*> nodes = graph.nodes();
  for (const Row& row : rows_) {
    if (std::any_of(nodes.begin(), nodes.end(), [&](const Node* node) { return row.fits(*node); }))
      continue;
    unused.push_back(describe(row.key));
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
    const char* const word = name_of(kind.kind);
    if (!passes.has(word)) continue;
    const Place table = passes.at(word);
    if (!table.value.is_object()) table.want("an object of lists of passes");
    for (const auto& [name, value] : table.value.items())
      rows.push_back({
          {kind.kind, name},
          passes_at(table.at(name), running), kind.fits(name)
      });
  }
  if (passes.has("global"))
    rows.push_back({{}, passes_at(passes.at("global"), running), [](const Node&) { return true; }});
  return PassRows(std::move(rows));
}

}  // namespace octet
