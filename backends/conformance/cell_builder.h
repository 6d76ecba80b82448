// Builds the program of a cell: one op or a few, with inputs and constants in the numbers of a
// Form.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "backends/conformance/cells.h"
#include "backends/conformance/program_builder.h"

namespace octet::conformance {

// The numbers of a cell: dtype, scale and zero point of its inputs and results.
struct Form {
  const char* name;
  DType x = DType::kFloat32;
  float scale = 0.0437f;
  int32_t zero_point = 0;
  DType y = DType::kFloat32;  // of ops that compute; ops that move elements keep those of x
  int32_t y_zero_point = 0;
  double reach = 1;  // what y can represent, as a share of the greatest result
  // post_min and post_max as shares of the greatest result; both 0: none
  double low = 0, high = 0;
  bool is_per_channel = false;  // of weights
};

class CellBuilder {
 public:
  // open: the first dimension of inputs and results is a size that each run decides.
  CellBuilder(const Form& form, uint32_t seed, bool open);

  bool is_float() const { return form_.x == DType::kFloat32; }
  // Inputs: in the form's dtype; floats in [low, high]; indices below `limit`; bools.
  int x(std::vector<int64_t> shape);
  int reals(std::vector<int64_t> shape, float low = -2, float high = 2);
  int indices(std::vector<int64_t> shape, int64_t limit);
  int bools(std::vector<int64_t> shape);
  // Constants: weights with one scale or one for each index of `axis`, the bias of the last weight,
  // and floats.
  int weight(std::vector<int64_t> shape, int axis);
  int bias(int64_t count);
  int constant(std::vector<int64_t> shape, float low = -1, float high = 1);
  int constant(Tensor data, std::optional<TensorQParams> qparams = {});
  int constant(StoredConstant stored);
  // A state with the dtype and the scale of `like`, or of floats, that starts as a constant or as
  // zeros; what it becomes.
  int state(std::vector<int64_t> shape, int like = -1, int start = -1);
  void becomes(int state, int tensor) { builder_.becomes(state, tensor); }
  // Adds an op with a result of this shape. finish() decides dtype and scale of f32 results.
  int op(const std::string& kind, std::vector<int> inputs, std::vector<int64_t> shape,
         Attributes attributes = {}, DType dtype = DType::kFloat32,
         std::optional<TensorQParams> qparams = {});
  int second_output(std::vector<int64_t> shape, DType dtype = DType::kInt64);
  // The program whose outputs are the results of the last op, and its inputs.
  CellProgram finish();

 private:
  struct Input {
    int tensor;
    std::function<Tensor(std::vector<int64_t> shape, uint32_t seed)> fill;
  };
  int add_input(DType dtype, std::vector<int64_t> shape, std::optional<TensorQParams> qparams,
                std::function<Tensor(std::vector<int64_t>, uint32_t)> fill);
  std::vector<Tensor> inputs_of_run(size_t run, int64_t rows) const;
  void fit_result(size_t op);

  Form form_;
  uint32_t seed_;
  bool is_open_;
  ProgramBuilder builder_;
  Program program_;
  std::vector<Input> inputs_;
  std::vector<float> weight_scales_;
  std::vector<std::pair<int, int>> scaled_like_;  // states, and the tensors whose scales they have
  int results_ = 0;
};

}  // namespace octet::conformance
