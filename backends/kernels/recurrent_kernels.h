// The inner loop of recurrent layers: a product with packed weights, whose sums go through the
// gates of the cell.
#pragma once

#include <cstdint>
#include <string_view>

namespace octet {

// Elements of the depth that lie together in a panel.
inline constexpr int64_t kRecurrentDepth = 4;

// Some hidden units of some entries of the batch, for one time step. A panel has the weights of as
// many units as a vector has elements: for each element of the depth, which is rounded up to
// kRecurrentDepth with zeros, those of each gate in turn.
struct RecurrentView {
  const float* before;  // [batch, depth]: what is multiplied
  const void* panels;   // of floats, or of int8, four of the depth in an int32 (the first one low)
  const float* scale;   // these two: for each panel a vector for each gate. Of int8 only, / 2^24
  const float* bias;
  const float* given;  // [batch, gates * units]: of the input. Null for kProjection
  float* state;        // [batch, units], in and out: lstm's cell state
  float* y;            // [batch, units]
  int64_t depth;
  int64_t units;
  int64_t first_row, last_row;      // of the batch
  int64_t first_panel, last_panel;  // the last panel of all may be part of one
};

// Names a product without a cell: y = before * weights.
inline constexpr std::string_view kProjection = "projection";

using RecurrentLoop = void (*)(const RecurrentView& view);

// The loop for a cell (lowering/program/recurrent.h) or kProjection.
RecurrentLoop find_recurrent_loop(std::string_view cell, bool has_integers);
// Hidden units in a panel of these loops.
int64_t recurrent_panel_units();

}  // namespace octet
