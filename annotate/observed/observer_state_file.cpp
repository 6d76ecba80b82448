#include "annotate/observed/observer_state_file.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "annotate/graph/control_flow.h"
#include "annotate/graph/observe_op.h"
#include "core/base/error.h"

namespace octet {
namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void refuse_file(const std::string& source, const std::string& message) {
  throw Error("state", source, message);
}

void check_numbers(const SavedGroup& group, const std::string& source) {
  const ObserverState& state = group.state;
  const std::string where = fmt::format("the group of [{}]", fmt::join(group.sites, ", "));
  if (state.min.size() != state.max.size())
    refuse_file(source, fmt::format("{} has {} minima and {} maxima, want as many of both", where,
                                    state.min.size(), state.max.size()));
  if (state.first_min.size() != state.first_max.size() ||
      (!state.first_min.empty() && state.first_min.size() != state.min.size()))
    refuse_file(source,
                fmt::format("{} has {} first minima and {} first maxima, want {} of both", where,
                            state.first_min.size(), state.first_max.size(), state.min.size()));
  for (size_t i = 0; i < state.min.size(); ++i)
    if (!std::isfinite(state.min[i]) || !std::isfinite(state.max[i]) || state.min[i] > state.max[i])
      refuse_file(source, fmt::format("{} has the range [{}, {}], want finite numbers in order",
                                      where, state.min[i], state.max[i]));
  for (size_t i = 0; i < state.first_min.size(); ++i)
    if (!std::isfinite(state.first_min[i]) || !std::isfinite(state.first_max[i]))
      refuse_file(source, fmt::format("{} has the first range [{}, {}], want finite numbers", where,
                                      state.first_min[i], state.first_max[i]));
  for (const float count : state.histogram)
    if (!std::isfinite(count) || count < 0)
      refuse_file(source, fmt::format("{} has the count {}, want a finite number of at least 0",
                                      where, count));
  if (state.batches < 0)
    refuse_file(source,
                fmt::format("{} has seen {} batches, want at least 0", where, state.batches));
}

}  // namespace

std::vector<SavedGroup> parse_groups(const std::string& text, const std::string& source) {
  std::vector<SavedGroup> groups;
  try {
    const Json json = Json::parse(text);
    if (json.at("format").get<Json>() != Json(kStateFormat))
      refuse_file(source,
                  fmt::format("unknown format, got {}, want {}; calibrate again with this version",
                              json.at("format").dump(), kStateFormat));
    for (const Json& group : json.at("groups")) {
      const auto floats = [&](const char* key) { return group.at(key).get<std::vector<float>>(); };
      SavedGroup saved{.observer = group.at("observer").get<std::string>(),
                       .dtype = group.at("dtype").get<std::string>(),
                       .sites = group.at("sites").get<Sites>(),
                       .state = {.min = floats("min"),
                                 .max = floats("max"),
                                 .histogram = floats("histogram"),
                                 .batches = group.at("batches").get<int64_t>(),
                                 .first_min = floats("first_min"),
                                 .first_max = floats("first_max")}};
      check_numbers(saved, source);
      groups.push_back(std::move(saved));
    }
  } catch (const nlohmann::json::exception& error) {
    refuse_file(source, fmt::format("no state of observers: {}", error.what()));
  }
  return groups;
}

// The sites of every group that has an observer node.
std::map<size_t, Sites> sites_of_groups(const ObservedGraph& observed) {
  std::map<const Graph*, std::string> prefixes;
  for (const Body& body : bodies_within(observed.graph)) prefixes[body.graph] = body.path + ".";
  std::map<size_t, Sites> sites;
  for (const Node* point : observer_nodes(observed.graph))
    sites[static_cast<size_t>(group_of(*point))].push_back(prefixes[&point->graph()] +
                                                           observed_value(*point)->name());
  return sites;
}

bool holds(const Sites& all, const Sites& some) {
  return std::all_of(some.begin(), some.end(), [&](const std::string& site) {
    return std::find(all.begin(), all.end(), site) != all.end();
  });
}

std::string read_state(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf()))
    throw Error("state", path.string(), "cannot be read; check the path");
  return text.str();
}

}  // namespace octet
