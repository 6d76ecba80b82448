// The inner loop of recurrent layers: multiplies by packed weights and applies the gates of the
// cell to the sums. Cells and the order of their gates are those of torch.nn.LSTM (i, f, g, o) and
// torch.nn.GRU (r, z, n):
//
//   lstm  c = sigmoid(f) * c + sigmoid(i) * tanh(g), h = sigmoid(o) * tanh(c)
//   gru   n' = tanh(n_x + sigmoid(r) * n_h), h = (1 - sigmoid(z)) * n' + sigmoid(z) * h
#pragma once

#include <cstdint>
#include <string_view>

namespace octet {

// Consecutive elements of the depth that are stored together in a panel.
inline constexpr int64_t kRecurrentDepth = 4;

// One time step for a range of batch entries and hidden units. A panel holds the weights of as many
// units as a vector has elements: for each element of the depth (rounded up to kRecurrentDepth with
// zeros), the weights of each gate in turn.
struct RecurrentView {
  const float* before;  // [batch, depth]: the left operand of the product
  const void* panels;   // floats; or int8, four elements of the depth in an int32, the first low
  const float* scale;   // per panel, a vector for each gate; int8 only, divided by 2^24
  const float* bias;    // per panel, a vector for each gate
  const float* given;   // [batch, gates * units]: the input's share. Null for kProjection
  float* state;         // [batch, units], in and out: the cell state of lstm
  float* y;             // [batch, units]
  int64_t depth;
  int64_t units;
  int64_t first_row, last_row;      // of the batch
  int64_t first_panel, last_panel;  // the last panel may be partly empty
};

// Names the product without a cell: y = before * weights.
inline constexpr std::string_view kProjection = "projection";

using RecurrentLoop = void (*)(const RecurrentView& view);

// Finds the loop for a cell (lowering/program/recurrent.h) or kProjection.
RecurrentLoop find_recurrent_loop(std::string_view cell, bool has_integers);
// The number of hidden units in a panel.
int64_t recurrent_panel_units();

}  // namespace octet
