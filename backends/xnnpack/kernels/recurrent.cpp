// See the header.
#include "backends/xnnpack/kernels/recurrent.h"

#include "backends/xnnpack/kernels/parts.h"

namespace octet::xnnpack {

Recurrent::Recurrent(const Program& program, const ProgramOp& op)
    : layer_(std::make_shared<const RecurrentLayer>(program, op)) {}

size_t Recurrent::scratch_bytes() const {
  return static_cast<size_t>(layer_->scratch_floats()) * sizeof(float);
}

void Recurrent::run(std::span<const std::byte* const> from, std::span<std::byte* const> to,
                    std::byte* scratch, pthreadpool_t pool) const {
  const auto input = [&](size_t i) {
    return i < from.size() ? reinterpret_cast<const float*>(from[i]) : nullptr;
  };
  const auto output = [&](size_t i) {
    return i < to.size() ? reinterpret_cast<float*>(to[i]) : nullptr;
  };
  const RecurrentMemory memory = {input(0),  input(1),  input(2),
                                  output(0), output(1), reinterpret_cast<float*>(scratch)};
  const int64_t threads =
      pool == nullptr ? 1 : static_cast<int64_t>(pthreadpool_get_threads_count(pool));
  layer_->run(memory, [=](int64_t count, int64_t, const auto& body) {
    for_parts(pool, count, (count + threads - 1) / threads, body);
  });
}

}  // namespace octet::xnnpack
