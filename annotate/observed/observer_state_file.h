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

}  // namespace octet
