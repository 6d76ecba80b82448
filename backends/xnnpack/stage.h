// Builds one stage of a segment as an XNNPACK subgraph, and creates its runtime.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "backends/xnnpack/library.h"
#include "backends/xnnpack/plan.h"

namespace octet::xnnpack {

// A runtime with the memory that it points to. Members are destroyed bottom up: the runtime first.
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

// Builds a stage. Methods that make values return XNNPACK's value ids; all throw Refusal.
class StageBuilder {
 public:
  StageBuilder(const Program& program, const Stage& stage);

  const Program& program() const { return program_; }
  xnn_subgraph_t subgraph() const { return subgraph_.get(); }

  // An activation or constant in `form`. A constant of a lower rank gets leading ones up to `rank`.
  uint32_t input(int tensor, Form form, size_t rank = 0);
  // The value that an op writes. Call it once per tensor.
  uint32_t output(int tensor, Form form);
  // An intermediate value of an op that becomes several XNNPACK ops, quantized like `like`.
  uint32_t scratch(const ProgramTensor& like, const std::vector<size_t>& dims);
  // A constant with a single element.
  uint32_t scalar_f32(float value);
  uint32_t scalar_s8(int8_t value, float scale);

  // Filters and biases. XNNPACK copies them when it creates the runtime; the builder keeps them
  // alive until then. `owner` owns `data`.
  uint32_t filter(DType dtype, const std::vector<size_t>& dims, const void* data,
                  std::shared_ptr<void> owner, Quantization quantization);
  uint32_t bias_f32(std::vector<float> values);
  uint32_t bias_s32(std::vector<int32_t> values, Quantization quantization);

  // Creates the runtime and consumes the builder. pool: null for one thread.
  StageRuntime finish(pthreadpool_t pool);

 private:
  uint32_t define(DType dtype, const std::vector<size_t>& dims, const Quantization* quantization,
                  const void* data, uint32_t external_id, uint32_t flags);
  uint32_t define_like(const ProgramTensor& tensor, const std::vector<size_t>& dims,
                       const void* data, uint32_t external_id, uint32_t flags);
  // Keeps values alive as long as the runtime, or as long as `place`.
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

// The clamp of an op's post-ops; infinite when unbounded.
struct OutputRange {
  float min;
  float max;
};
OutputRange post_range_of(const ProgramOp& op);
// The range to which a quantize or requantize narrows its integers, in real units; infinite when it
// is the dtype's range.
OutputRange quantized_range_of(const Program& program, const ProgramOp& op);

}  // namespace octet::xnnpack
