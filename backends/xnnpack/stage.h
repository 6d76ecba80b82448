// Writes one stage of a segment into an XNNPACK subgraph, and makes the runtime.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "backends/xnnpack/library.h"
#include "backends/xnnpack/plan.h"

namespace octet::xnnpack {

// A runtime with what it points to. Members are destroyed bottom up: the runtime first.
struct StageRuntime {
  std::vector<std::shared_ptr<void>> kept;
  RuntimeHandle runtime;
  std::map<BufferKey, uint32_t> ids;  // of the external values
};

// Scale of XNNPACK's signed integers; zero point 0 for filters and biases.
struct Quantization {
  std::vector<float> scale;  // one, or one per channel
  int32_t zero_point = 0;
  size_t channel_dim = 0;  // of per-channel scales
};

// The methods that make values return XNNPACK's value ids; all throw Refusal.
class StageBuilder {
 public:
  StageBuilder(const Program& program, const Stage& stage);

  const Program& program() const { return program_; }
  xnn_subgraph_t subgraph() const { return subgraph_.get(); }

  // An activation or constant in `form`. A constant of a rank below `rank` gets leading ones.
  uint32_t input(int tensor, Form form, size_t rank = 0);
  // The value that an op writes. Each tensor once.
  uint32_t output(int tensor, Form form);
  // A value between two XNNPACK ops of one op, quantized like `like`.
  uint32_t scratch(const ProgramTensor& like, const std::vector<size_t>& dims);
  // A constant with a single element.
  uint32_t scalar_f32(float value);
  uint32_t scalar_s8(int8_t value, float scale);

  // Filters and biases, which XNNPACK copies when it makes the runtime; until then the builder
  // keeps them alive. `owner` owns `data`.
  uint32_t filter(DType dtype, const std::vector<size_t>& dims, const void* data,
                  std::shared_ptr<void> owner, Quantization quantization);
  uint32_t bias_f32(std::vector<float> values);
  uint32_t bias_s32(std::vector<int32_t> values, Quantization quantization);

  // Makes the runtime; the builder is spent. pool: null for one thread.
  StageRuntime finish(pthreadpool_t pool);

 private:
  uint32_t define(DType dtype, const std::vector<size_t>& dims, const Quantization* quantization,
                  const void* data, uint32_t external_id, uint32_t flags);
  uint32_t define_like(const ProgramTensor& tensor, const std::vector<size_t>& dims,
                       const void* data, uint32_t external_id, uint32_t flags);
  // Keeps what the runtime points to alive as long as the runtime; with another place, that long.
  template <typename T>
  const T* keep(std::vector<T> values) {
    return keep(std::move(values), result_.kept);
  }
  template <typename T>
  static const T* keep(std::vector<T> values, std::vector<std::shared_ptr<void>>& place);

  const Program& program_;
  const Stage& stage_;
  SubgraphHandle subgraph_;
  StageRuntime result_;
  std::vector<std::shared_ptr<void>> packed_;  // until the runtime is made
  std::map<std::pair<int, Form>, uint32_t> values_;
};

// The clamp that an op with post-ops applies; infinite where unbounded.
struct OutputRange {
  float min;
  float max;
};
OutputRange post_range_of(const ProgramOp& op);
// The range that a quantize or requantize narrows its integers to, in real units; infinite where it
// is the dtype's.
OutputRange quantized_range_of(const Program& program, const ProgramOp& op);

}  // namespace octet::xnnpack
