// Saves and loads observers' states as JSON, so that calibration and conversion can run separately,
// and calibration on several machines. All floats are exact.
#pragma once

#include <filesystem>

#include "annotate/observed/observed_graph.h"

namespace octet {

constexpr int kStateFormat = 2;

// names of the observed values in graph order; in bodies of control flow with the body's path and a
// dot in front
using Sites = std::vector<std::string>;

struct SavedGroup {
  std::string observer;
  std::string dtype;
  Sites sites;
  ObserverState state;
  bool is_used = false;
};

// Throws Error("state", source, ...) when the text is not such JSON or numbers in it are
// impossible.
std::vector<SavedGroup> parse_groups(const std::string& text, const std::string& source);
// Throws Error("state", path, ...) when the file cannot be read.
std::string read_state(const std::filesystem::path& path);

// The sites of every group that has an observer node.
std::map<size_t, Sites> sites_of_groups(const ObservedGraph& observed);
bool holds(const Sites& all, const Sites& some);

// {"format": 2, "groups": [{"group", "observer", "dtype", "sites", "min", "max", "histogram",
// "batches", "first_min", "first_max"}]}. Arrays that an observer does not keep are empty. "group"
// and "dtype" are only informative.
std::string observer_state_to_json(const ObservedGraph& observed);

// How a state must match the graph.
//   kWhole  its groups are those of the graph
//   kPart   it may have more: it comes from a preparation of the same model that quantized more. A
//           group of the graph takes the state of the group that observed all of its sites with the
//           same kind of observer; further sites of that one are included, with a note.
enum class StateFit { kWhole, kPart };

// Restores states. Groups are matched by their sites, not by their numbers. Returns notes for the
// user. Throws Error("state", source, ...) when the text is not such JSON, when its groups do not
// fit, and when numbers in it are impossible.
std::vector<std::string> observer_state_from_json(ObservedGraph& observed, const std::string& text,
                                                  const std::string& source,
                                                  StateFit fit = StateFit::kWhole);
// Merges the states into the observers instead (Observer::merge).
std::vector<std::string> merge_observer_state_from_json(ObservedGraph& observed,
                                                        const std::string& text,
                                                        const std::string& source,
                                                        StateFit fit = StateFit::kWhole);

// Replaces the file atomically.
void save_observer_state(const ObservedGraph& observed, const std::filesystem::path& path);
// Loads the first file and merges the others into it in order. With moving averages, give them in
// the order of the data.
std::vector<std::string> load_observer_states(ObservedGraph& observed,
                                              const std::vector<std::filesystem::path>& paths,
                                              StateFit fit = StateFit::kWhole);

}  // namespace octet
