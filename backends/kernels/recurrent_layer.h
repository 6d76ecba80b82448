// One direction of a recurrent layer (the op `recurrent`, lowering/program/program.h) as one call
// for all time steps: for each the product with the hidden state, the gates and the projection,
// while the sums are in registers. Float weights are packed once. Weights that are stored as
// integers stay so where floats would not fit into the nearer caches, and are read as such.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/kernels/parallel.h"
#include "backends/kernels/recurrent_kernels.h"
#include "core/base/report.h"
#include "lowering/program/packed_cache.h"
#include "lowering/program/program.h"

namespace octet {

// Packed bytes of a constant, aligned to vectors: what `pack` makes, or made before for the same
// constant and the same `form`; `bytes` of them.
using KeepPacked = std::function<std::shared_ptr<std::byte>(
    const ProgramTensor& constant, const std::string& form, size_t bytes,
    const std::function<PackedBlock()>& pack)>;

class RecurrentLayer {
 public:
  // Accepts what fits (check_recurrent) and has constant weights, bias and projection.
  static Verdict check(const Program& program, const ProgramOp& op);
  // Packs the weights of an accepted op.
  RecurrentLayer(const Program& program, const ProgramOp& op, const KeepPacked& keep = {});

  bool has_integers() const { return weights_.has_integers; }
  size_t scratch_bytes() const;

  // Runs all steps. from: the gates of the input, the first hidden state and, for lstm, the first
  // cell state; to: the hidden states and, for lstm, the last cell state; all row-major floats.
  // Allocates nothing.
  void run(std::span<const std::byte* const> from, std::span<std::byte* const> to,
           std::byte* scratch, const Parallel& parallel) const;

 private:
  struct Memory {  // as in the op; c0 and c are null unless it is lstm
    const float *gates, *h0, *c0;
    float *y, *c, *scratch;
  };
  struct Matrix {
    std::shared_ptr<const void> panels;
    std::vector<float> scale, bias;
    RecurrentLoop loop = nullptr;
    int64_t units = 0;
    int64_t depth = 0;
    int64_t gates = 1;
    bool has_integers = false;
    int64_t panels_count() const;
    int64_t elements_per_panel() const;
  };
  struct Part {  // of the batch, and of the panels of a matrix
    int64_t first, last;
  };

  static Matrix pack(const ProgramTensor& weights, const ProgramTensor* bias, std::string_view cell,
                     int64_t gates, int64_t batch, const KeepPacked& keep);
  // Whether the units of each step are cut into parts, not the entries of the batch.
  bool cuts_units() const;
  void begin(const Memory& memory, Part rows) const;
  void step(const Memory& memory, int64_t number, Part rows, Part panels) const;
  void project(const Memory& memory, int64_t number, Part rows, Part panels) const;

  Matrix weights_, projection_;  // the second one without panels where there is none
  int64_t steps_, batch_;
  bool is_reverse_;
};

}  // namespace octet
