// Runs one direction of a recurrent layer (the op `recurrent`, lowering/program/ops.def) for all
// time steps in one call. Each step computes the product with the hidden state, the gates and the
// projection while the sums are in registers. Weights are packed once: as floats, or as the stored
// integers where floats would exceed the inner caches.
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

// Returns the packed form of a constant, `bytes` bytes aligned to vectors. Calls `pack` unless the
// same constant was packed in the same `form` before.
using KeepPacked = std::function<std::shared_ptr<std::byte>(
    const ProgramTensor& constant, const std::string& form, size_t bytes,
    const std::function<PackedBlock()>& pack)>;

class RecurrentLayer {
 public:
  // Accepts ops that pass check_recurrent and whose weights, bias and projection are constant.
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
  struct Memory {  // as in the op; c0 and c are null unless the cell is lstm
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
  struct Part {  // a range of batch entries or of panels
    int64_t first, last;
  };

  static Matrix pack(const ProgramTensor& weights, const ProgramTensor* bias, std::string_view cell,
                     int64_t gates, int64_t batch, const KeepPacked& keep);
  // Whether threads split the units of each step rather than the entries of the batch.
  bool cuts_units() const;
  void begin(const Memory& memory, Part rows) const;
  void step(const Memory& memory, int64_t number, Part rows, Part panels) const;
  void project(const Memory& memory, int64_t number, Part rows, Part panels) const;

  Matrix weights_, projection_;  // projection_ has no panels when the op has no projection
  int64_t steps_, batch_;
  bool is_reverse_;
};

}  // namespace octet
