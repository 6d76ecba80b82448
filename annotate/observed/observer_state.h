// Observers' states as JSON, so that calibration can be done apart from conversion and on several
// machines. All floats are exact.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "annotate/observed/observed_graph.h"

namespace octet {

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
