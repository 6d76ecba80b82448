// Lists the cells of `octet conformance --quantizer`: small float programs, as text.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace octet::conformance {

struct GraphCell {
  std::string name;                                     // "conv/odd"; unique
  std::string kind;                                     // of its layers; "file"
  std::function<std::string(uint32_t seed)> text = {};  // of the graph
  std::string file = {};                                // the .pt2 that has the graph instead
};

// Single layers, pairs that fuse, shapes, whole networks and, last, random ones, which depend on
// the seed.
std::vector<GraphCell> graph_cells();

void add_layers(std::vector<GraphCell>& cells);
void add_networks(std::vector<GraphCell>& cells);
void add_random(std::vector<GraphCell>& cells);

}  // namespace octet::conformance
