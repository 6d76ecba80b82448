#include "annotate/observed/observer_state.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "annotate/graph/control_flow.h"
#include "annotate/graph/qdq_nodes.h"
#include "core/base/error.h"
#include "core/base/json_text.h"
#include "core/base/output_file.h"

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
    refuse_file(source, fmt::format("{} has {} minima and {} maxima, want equal numbers", where,
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

using Json = nlohmann::ordered_json;

[[noreturn]] void refuse(const std::string& source, const std::string& message) {
  throw Error("state", source, message);
}

// Loads the groups of a file into the observers of a graph.
class Loader {
 public:
  Loader(ObservedGraph& observed, const std::string& text, const std::string& source, StateFit fit)
      : observed_(observed), source_(source), fit_(fit), saved_(parse_groups(text, source)) {}

  std::vector<std::string> run(bool merge) {
    std::vector<std::string> notes;
    const std::map<size_t, Sites> groups = sites_of_groups(observed_);
    for (const auto& [group, sites] : groups) {
      Observer& observer = *observed_.observers.at(group);
      if (!observer.keeps_state()) continue;
      SavedGroup& saved = find(sites, observer);
      saved.is_used = true;
      check_channels(group, sites, saved);
      apply(observer, saved, merge);
      if (saved.sites != sites)
        notes.push_back(
            fmt::format("state: [{}] takes the range that {} saw together with other values: [{}]",
                        fmt::join(sites, ", "), source_, fmt::join(saved.sites, ", ")));
    }
    if (fit_ == StateFit::kWhole) check_all_used();
    return notes;
  }

 private:
  // The best group that observed all of `sites` with this kind of observer: preferably no other
  // sites, this dtype, and not used yet.
  SavedGroup& find(const Sites& sites, const Observer& observer) {
    const std::string& kind = observer.args().choice.name;
    SavedGroup* best = nullptr;
    int best_score = -1;
    for (SavedGroup& group : saved_) {
      const bool is_equal = group.sites == sites;
      if (group.observer != kind ||
          !(is_equal || (fit_ == StateFit::kPart && holds(group.sites, sites))))
        continue;
      const int score =
          4 * is_equal + 2 * (group.dtype == name_of(observer.args().dtype)) + !group.is_used;
      if (score > best_score) best = &group;
      best_score = std::max(best_score, score);
    }
    if (best == nullptr) refuse_missing(sites, kind);
    return *best;
  }

  [[noreturn]] void refuse_missing(const Sites& sites, const std::string& kind) const {
    for (const std::string& site : sites) {
      const auto has_site = [&](const SavedGroup& group) { return holds(group.sites, {site}); };
      const auto found = std::ranges::find_if(saved_, has_site);
      if (found == saved_.end())
        refuse(source_, fmt::format("the state lacks %{}, which the {} observer of [{}] needs; "
                                    "calibrate with the same model and quantizer",
                                    site, kind, fmt::join(sites, ", ")));
      if (found->observer != kind && std::ranges::none_of(saved_, [&](const SavedGroup& group) {
            return has_site(group) && group.observer == kind;
          }))
        refuse(source_, fmt::format("%{} was seen by another observer, got {}, want {}; calibrate "
                                    "with the same quantizer",
                                    site, found->observer, kind));
    }
    refuse(source_,
           fmt::format(
               "no {} observer of the state saw all of [{}]; calibrate with the same quantizer",
               kind, fmt::join(sites, ", ")));
  }

  // A range per channel must have as many channels as the observed tensor.
  void check_channels(size_t group, const Sites& sites, const SavedGroup& saved) const {
    const ObserverArgs& args = observed_.observers[group]->args();
    if (!is_per_channel(args.qscheme) || args.choice.affine || saved.state.min.empty()) return;
    for (const Node* point : observer_nodes(observed_.graph)) {
      const std::optional<TensorMeta>& meta = observed_value(*point)->meta;
      if (static_cast<size_t>(group_of(*point)) != group || !meta || !meta->is_static()) continue;
      const std::vector<int64_t> shape = meta->shape();
      const size_t axis = static_cast<size_t>(args.ch_axis.value_or(0));
      if (axis < shape.size() && static_cast<size_t>(shape[axis]) != saved.state.min.size())
        refuse(
            source_,
            fmt::format("the group of [{}] has {} channels, want {}; calibrate with the same model",
                        fmt::join(sites, ", "), saved.state.min.size(), shape[axis]));
    }
  }

  void apply(Observer& observer, const SavedGroup& saved, bool merge) const {
    try {
      if (!merge || !observer.has_data()) return observer.set_state(saved.state);
      const std::shared_ptr<Observer> other = make_observer(observer.args());
      other->set_state(saved.state);
      observer.merge(*other);
    } catch (const Error& error) {
      refuse(source_, fmt::format("the group of [{}]: {}", fmt::join(saved.sites, ", "),
                                  error.without_stage()));
    }
  }

  void check_all_used() const {
    for (const SavedGroup& group : saved_)
      if (!group.is_used && !group.state.min.empty())
        refuse(source_,
               fmt::format("the state has a {} observer of [{}], which the graph does not have; "
                           "calibrate with the same model and quantizer",
                           group.observer, fmt::join(group.sites, ", ")));
  }

  ObservedGraph& observed_;
  const std::string& source_;
  StateFit fit_;
  std::vector<SavedGroup> saved_;
};

}  // namespace

std::vector<SavedGroup> parse_groups(const std::string& text, const std::string& source) {
  std::vector<SavedGroup> groups;
  try {
    const Json json = parse_json<Json>(text);
    if (json.at("format").get<Json>() != Json(kStateFormat))
      refuse_file(source,
                  fmt::format("unknown format, got {}, want {}; calibrate again with this version",
                              dump_json(json.at("format")), kStateFormat));
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
  return std::ranges::all_of(
      some, [&](const std::string& site) { return std::ranges::find(all, site) != all.end(); });
}

std::string read_state(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf()))
    throw Error("state", path.string(), "cannot be read; check the path");
  return text.str();
}

std::string observer_state_to_json(const ObservedGraph& observed) {
  Json groups = Json::array();
  std::map<size_t, Sites> sites = sites_of_groups(observed);
  for (size_t i = 0; i < observed.observers.size(); ++i) {
    const Observer& observer = *observed.observers[i];
    const ObserverState state = observer.state();
    Json group;
    group["group"] = i;
    group["observer"] = observer.args().choice.name;
    group["dtype"] = name_of(observer.args().dtype);
    group["sites"] = sites[i];
    group["min"] = state.min;
    group["max"] = state.max;
    group["histogram"] = state.histogram;
    group["batches"] = state.batches;
    group["first_min"] = state.first_min;
    group["first_max"] = state.first_max;
    groups.push_back(std::move(group));
  }
  Json json;
  json["format"] = kStateFormat;
  json["groups"] = std::move(groups);
  return dump_json(json) + "\n";
}

std::vector<std::string> observer_state_from_json(ObservedGraph& observed, const std::string& text,
                                                  const std::string& source, StateFit fit) {
  return Loader(observed, text, source, fit).run(false);
}

std::vector<std::string> merge_observer_state_from_json(ObservedGraph& observed,
                                                        const std::string& text,
                                                        const std::string& source, StateFit fit) {
  return Loader(observed, text, source, fit).run(true);
}

void save_observer_state(const ObservedGraph& observed, const std::filesystem::path& path) {
  write_file(path, observer_state_to_json(observed), "state");
}

std::vector<std::string> load_observer_states(ObservedGraph& observed,
                                              const std::vector<std::filesystem::path>& paths,
                                              StateFit fit) {
  std::vector<std::string> notes;
  for (size_t i = 0; i < paths.size(); ++i) {
    const std::vector<std::string> more =
        Loader(observed, read_state(paths[i]), paths[i].string(), fit).run(i > 0);
    notes.insert(notes.end(), more.begin(), more.end());
  }
  return notes;
}

}  // namespace octet
