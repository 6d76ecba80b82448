#include "annotate/observer_state.h"

#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace octet {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::string> sites_of(const ObservedGraph& observed, int group) {
  std::vector<std::string> sites;
  for (const Node* point : observation_points(observed.graph))
    if (group_of(*point) == group) sites.push_back(observed_value(*point)->name());
  return sites;
}

[[noreturn]] void refuse(const std::string& source, const std::string& message) { throw Error("state", source, message); }

void load_group(ObservedGraph& observed, size_t index, const Json& group, const std::string& source) {
  Observer& observer = *observed.observers[index];
  const std::vector<std::string> want = sites_of(observed, static_cast<int>(index));
  const std::vector<std::string> got = group.at("sites").get<std::vector<std::string>>();
  if (got != want)
    refuse(source, fmt::format("group {} observes other values, got [{}], want [{}]; calibrate with the same model and quantizer", index,
                               fmt::join(got, ", "), fmt::join(want, ", ")));
  if (group.at("observer").get<std::string>() != observer.args().choice.name)
    refuse(source, fmt::format("group {} has another observer, got {}, want {}; calibrate with the same quantizer", index,
                               group.at("observer").get<std::string>(), observer.args().choice.name));
  observer.set_state(
      {group.at("min").get<std::vector<float>>(), group.at("max").get<std::vector<float>>(), group.at("histogram").get<std::vector<float>>()});
}

}  // namespace

std::string observer_state_to_json(const ObservedGraph& observed) {
  Json groups = Json::array();
  for (size_t i = 0; i < observed.observers.size(); ++i) {
    const Observer& observer = *observed.observers[i];
    const ObserverState state = observer.state();
    groups.push_back({
        {"group",    i                             },
        {"observer", observer.args().choice.name   },
        {"dtype",    name_of(observer.args().dtype)},
        {"sites",    sites_of(observed,              static_cast<int>(i))},
        {"min",          state.min                                   },
        {"max",          state.max},
        {"histogram",          state.histogram                             }
    });
  }
  return Json{
             {"format", 1                },
             {"groups", std::move(groups)}
  }
             .dump() +
         "\n";
}

void observer_state_from_json(ObservedGraph& observed, const std::string& text, const std::string& source) {
  try {
    const Json json = Json::parse(text);
    if (json.at("format").get<int>() != 1) refuse(source, fmt::format("unknown format, got {}, want 1", json.at("format").dump()));
    const Json& groups = json.at("groups");
    if (groups.size() != observed.observers.size())
      refuse(source, fmt::format("wrong number of observer groups, got {}, want {}; calibrate with the same model and quantizer", groups.size(),
                                 observed.observers.size()));
    for (size_t i = 0; i < groups.size(); ++i) load_group(observed, i, groups[i], source);
  } catch (const nlohmann::json::exception& error) {
    refuse(source, fmt::format("no state of observers: {}", error.what()));
  }
}

void save_observer_state(const ObservedGraph& observed, const std::filesystem::path& path) {
  const std::filesystem::path beside = path.string() + ".tmp";
  {
    std::ofstream file(beside, std::ios::binary);
    file << observer_state_to_json(observed);
    if (!file.flush()) throw Error("state", path.string(), "cannot be written; check the folder and the free space");
  }
  std::error_code error;
  std::filesystem::rename(beside, path, error);
  if (error) throw Error("state", path.string(), fmt::format("cannot be written: {}", error.message()));
}

void load_observer_state(ObservedGraph& observed, const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error("state", path.string(), "cannot be read; check the path");
  std::ostringstream text;
  text << file.rdbuf();
  observer_state_from_json(observed, text.str(), path.string());
}

}  // namespace octet
