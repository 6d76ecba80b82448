// One direction of a recurrent layer (the op `recurrent`, lowering/program/program.h) as one call
// for all time steps: for each the product with the hidden state, the gates and the projection,
// while the sums are in registers. Float weights are packed once. Weights that are stored as
// integers stay so where floats would not fit into the nearer caches, and are read as such.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/common/recurrent_kernels.h"
#include "core/base/report.h"
#include "lowering/program/packed_cache.h"
#include "lowering/program/program.h"

namespace octet {

// Row-major floats; names are those of the op.
struct RecurrentMemory {
  const float* gates;
  const float* h0;
  const float* c0;  // null but for lstm, as `c`
  float* y;
  float* c;
  float* scratch;  // RecurrentLayer::scratch_floats() of them
};

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
  int64_t scratch_floats() const;

  // Runs all steps. split(count, elements, body) calls body(first, last) on parts of [0, count), in
  // threads where that pays; `elements`: what each of them multiplies. Allocates nothing.
  template <typename Split>
  void run(const RecurrentMemory& memory, const Split& split) const;

 private:
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
  void begin(const RecurrentMemory& memory, Part rows) const;
  void step(const RecurrentMemory& memory, int64_t number, Part rows, Part panels) const;
  void project(const RecurrentMemory& memory, int64_t number, Part rows, Part panels) const;

  Matrix weights_, projection_;  // the second one without panels where there is none
  int64_t steps_, batch_;
  bool is_reverse_;
};

template <typename Split>
void RecurrentLayer::run(const RecurrentMemory& memory, const Split& split) const {
  const int64_t panels = weights_.panels_count(),
                projected = projection_.panels ? projection_.panels_count() : 0;
  const Part all = {0, batch_};
  if (!cuts_units()) {
    const int64_t elements = steps_ * (panels * weights_.elements_per_panel() +
                                       projected * projection_.elements_per_panel());
    return split(batch_, elements, [&](int64_t first, int64_t last) {
      begin(memory, {first, last});
      for (int64_t number = 0; number < steps_; ++number) {
        step(memory, number, {first, last}, {0, panels});
        if (projected > 0) project(memory, number, {first, last}, {0, projected});
      }
    });
  }
  begin(memory, all);
  for (int64_t number = 0; number < steps_; ++number) {
    split(panels, batch_ * weights_.elements_per_panel(),
          [&](int64_t first, int64_t last) { step(memory, number, all, {first, last}); });
    if (projected > 0)
      split(projected, batch_ * projection_.elements_per_panel(),
            [&](int64_t first, int64_t last) { project(memory, number, all, {first, last}); });
  }
}

}  // namespace octet
