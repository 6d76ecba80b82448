// A direction of a recurrent layer, all its steps in one call (backends/common/recurrent_layer.h).
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "backends/common/recurrent_layer.h"
#include "backends/xnnpack/functions.h"

namespace octet::xnnpack {

// Copies share the packed weights.
class Recurrent {
 public:
  // An op that RecurrentLayer::check accepts.
  Recurrent(const Program& program, const ProgramOp& op);

  size_t scratch_bytes() const;
  // from: the input's gates, the first hidden state and, of an lstm, the first cell state; to: the
  // hidden states and, of an lstm, the last cell state. Allocates nothing. pool: null for one
  // thread.
  void run(std::span<const std::byte* const> from, std::span<std::byte* const> to,
           std::byte* scratch, pthreadpool_t pool) const;

 private:
  std::shared_ptr<const RecurrentLayer> layer_;
};

}  // namespace octet::xnnpack
