// What a file of observers' states holds, read and checked; for observer_state.h and
// initial_ranges.h.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "annotate/observed/observed_graph.h"

namespace octet {

constexpr int kStateFormat = 2;

// names of the observed values in graph order; those within a body stand behind its path and a dot
using Sites = std::vector<std::string>;

struct SavedGroup {
  std::string observer;
  std::string dtype;
  Sites sites;
  ObserverState state;
  bool is_used = false;
};

// Throws Error("state", source, ...) when the text is no such JSON, and when numbers in it are
// impossible.
std::vector<SavedGroup> parse_groups(const std::string& text, const std::string& source);
// Throws Error("state", path, ...) when the file cannot be read.
std::string read_state(const std::filesystem::path& path);

// The sites of every group that has an observer node.
std::map<size_t, Sites> sites_of_groups(const ObservedGraph& observed);
bool holds(const Sites& all, const Sites& some);

// Observers' states as JSON, so that calibration can be done apart from conversion and on several
// machines. All floats are exact.

// {"format": 2, "groups": [{"group", "observer", "dtype", "sites", "min", "max", "histogram",
// "batches", "first_min", "first_max"}]} sites: names of the observed values in graph order; those
// within a body of control flow stand behind its path and a dot. Arrays that the kind does not keep
// are empty. "group" and "dtype" are for the reader.
std::string observer_state_to_json(const ObservedGraph& observed);

// How much of a state must fit.
//   kWhole  the groups of the state are those of the graph
//   kPart   the state may hold more: it comes from a preparation of the same model that quantized
//           more. A group of the graph takes the group of the
//           state that observed all of its sites with the same kind of observer; when that one had
//               further sites, they count in, with a note.
enum class StateFit { kWhole, kPart };

// Puts states back: groups are matched by their sites, not by their numbers. Returns notes for the
// user. Throws Error("state", source, ...) when the text is no such JSON, when its groups do not
// fit, and when numbers in it are impossible.
std::vector<std::string> observer_state_from_json(ObservedGraph& observed, const std::string& text,
                                                  const std::string& source,
                                                  StateFit fit = StateFit::kWhole);
// Likewise, but merges the states into what the observers know already (Observer::merge).
std::vector<std::string> merge_observer_state_from_json(ObservedGraph& observed,
                                                        const std::string& text,
                                                        const std::string& source,
                                                        StateFit fit = StateFit::kWhole);

// atomic
void save_observer_state(const ObservedGraph& observed, const std::filesystem::path& path);
// The first file's state, the others merged into it in order: with moving averages, the order in
// which the data would have come.
std::vector<std::string> load_observer_states(ObservedGraph& observed,
                                              const std::vector<std::filesystem::path>& paths,
                                              StateFit fit = StateFit::kWhole);

}  // namespace octet
