// Builds small Programs in a few lines, and compares a backend with the reference. For tests of
// backends; installed with Octet.
//
//   ProgramBuilder b;
//   int x = b.input("x", DType::kUInt8, {1, 8, 5, 5}, quantized(0.05f, 3));
//   int w = b.constant("w", random_integers(DType::kInt8, {4, 8, 3, 3}), per_channel({...}, 0));
//   int y = b.op("conv", {x, w, -1}, "y", DType::kUInt8, {1, 4, 3, 3}, quantized(0.1f, 128),
//       {{"stride", ints({1, 1})}, ...});
//   b.output(y);
//   const Tensor x = random_integers(DType::kUInt8, {1, 8, 5, 5});
//   CHECK(check_against_reference(b.finish(), "onednn", {x}) <= 1);
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lowering/program/program.h"

namespace octet {

TensorQParams quantized(float scale, int32_t zero_point);  // per tensor
// As above for u8 or s8, where zero_point is that of s8; empty for floats.
std::optional<TensorQParams> qparams_of(DType dtype, float scale, int32_t zero_point);
TensorQParams per_channel(std::vector<float> scales, int axis);  // zero points 0
inline Attribute ints(std::vector<int64_t> values) { return values; }
// The attributes of a fake_quantize_dynamic; a fixed zero point is the middle of the range.
Attributes mapping(const std::string& name, int64_t low, int64_t high, std::vector<int64_t> blocks);

// Deterministic data; tensors with different seeds differ. Integers are in [low, high], by default
// the dtype's full range.
Tensor random_integers(DType dtype, std::vector<int64_t> shape, uint32_t seed = 1,
                       std::optional<int64_t> low = {}, std::optional<int64_t> high = {});
Tensor random_floats(std::vector<int64_t> shape, float low = -1, float high = 1, uint32_t seed = 1);
// Floats from -reach to reach, or any integers.
Tensor random_elements(DType dtype, std::vector<int64_t> shape, uint32_t seed = 3, float reach = 2);
std::vector<float> random_scales(size_t count, float low = 0.001f, float high = 0.01f,
                                 uint32_t seed = 1);

class ProgramBuilder {
 public:
  int input(const std::string& name, DType dtype, std::vector<int64_t> shape,
            std::optional<TensorQParams> qparams = {});
  int constant(const std::string& name, Tensor data, std::optional<TensorQParams> qparams = {});
  int constant(const std::string& name, StoredConstant stored);
  // Returns the index of the op's only output.
  int op(const std::string& kind, std::vector<int> inputs, const std::string& output, DType dtype,
         std::vector<int64_t> shape, std::optional<TensorQParams> qparams = {},
         Attributes attributes = {});
  // A further output of the last op.
  int second_output(const std::string& output, std::vector<int64_t> shape,
                    DType dtype = DType::kFloat32);
  // A body, for the attribute "bodies" of a control op.
  int64_t body(Program body);
  void output(int tensor);
  // A state's value and the constant that it starts as (-1: zeros); call `becomes` afterwards.
  int state(const std::string& name, DType dtype, std::vector<int64_t> shape, int start = -1);
  void becomes(int state, int tensor);
  // The program without segments, verified; unfinished(): not verified, perhaps without outputs.
  Program finish();
  const Program& unfinished() const { return program_; }

 private:
  int add(ProgramTensor tensor);
  Program program_;
};

// All ops as one segment of `backend`.
Program with_one_segment(Program program, const std::string& backend);

// Why the backend refuses the first op that it refuses; nullopt when it accepts all.
std::optional<std::string> refusal(const Program& program, const std::string& backend);

// The results of the program as one segment of `backend`.
std::vector<Tensor> run_segment(const Program& program, const std::string& backend,
                                const std::vector<Tensor>& inputs, int threads = 1);

// An element as a number: of floats, integers of up to 64 bits (which may round) and bools.
double number_at(const Tensor& tensor, int64_t index);

// Runs the program as one segment of `backend` and of the reference and returns the greatest
// difference: in output steps for integer outputs, absolute for float ones. Throws Error("backend",
// op, ...) with the program's text when the backend refuses an op.
double check_against_reference(const Program& program, const std::string& backend,
                               const std::vector<Tensor>& inputs);

}  // namespace octet
