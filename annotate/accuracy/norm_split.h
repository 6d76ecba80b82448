// Layer norms that other ops read beside quantized linears (a residual, as in BERT) are given a
// copy of their own for the linears, so that smoothing can scale the copy's channels:
//
//   layer_norm -> observe -> linear             layer_norm -> add
//             \-> add                   to      layer_norm' -> observe -> linear
#pragma once

#include <cstddef>
#include <vector>

#include "annotate/observed/observed_graph.h"

namespace octet {

struct NormSplit {
  // An observer node that linears read.
  struct Point {
    Node* point = nullptr;
    Value* read_before = nullptr;  // what it read; for a new point, what the linears read
    int group_before = -1;
    bool is_new = false;         // the point that was there goes on serving the others
    std::vector<Node*> readers;  // of a new point
  };
  Node* norm = nullptr;
  Node* copy = nullptr;
  std::vector<Point> points;
};

// The points stay in their groups. Dropouts that do nothing are looked through. Left alone: norms
// whose every reader is such a linear or no reader is, points that derived qparams depend on, and
// bodies of control flow. In graph order.
std::vector<NormSplit> split_norms(ObservedGraph& observed);
// Gives the points of the copy observers of their own, which have not seen data.
void separate_observers(ObservedGraph& observed, const NormSplit& split);
// All as it was, but for groups without point.
void join_norm(ObservedGraph& observed, const NormSplit& split);

}  // namespace octet
