// The ops that a server model may have, as calls on small tensors; test_coverage runs them in each
// form on each backend.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace octet {

enum class Operand {
  kActivation,  // an input of the program
  kWeights,     // constant, quantized per channel along dimension 0
  kWeights1,    // along dimension 1
  kParameter,   // float constant
  kIndices,     // int64 input
};

struct CoverageInput {
  const char* name;
  Operand kind;
  const char* shape;  // "2,8,9"
};

struct CoverageRow {
  const char* item;
  std::vector<CoverageInput> inputs;
  const char* call;     // with inputs as %name
  const char* results;  // "%y: f32[2,8]"; %y is compared
};

std::span<const CoverageRow> coverage_rows();

enum class CoverageForm {
  kFloat,
  kStatic,         // integer activations and weights, integer result
  kDynamicTensor,  // activations quantized at run time, with one scale
  kDynamicToken,   // with a scale for each row
  kDynamicGroups,  // per token, weights of 8 bits in groups of 32
  kWeightOnly,     // int8 weights per channel
  kWeightGroups,   // int8 weights in groups of 32
  kNibbleGroups,   // 4-bit weights in groups of 32
};

// How a tensor of integers is quantized, without the scale.
struct CoverageSteps {
  const char* dtype;
  int64_t zero_point, low, high;
};
struct CoverageRanges {
  CoverageSteps activation = {"u8", 125, 0, 255};  // in the static form
  CoverageSteps dynamic = {"i8", 0, -128, 127};    // with one scale computed at run time
  CoverageSteps result = {"i8", 3, -128, 127};
};

// The scale of activations in the static form.
inline constexpr double kActivationScale = 0.008;

// The graph in text form. The node of the call is "main". `scale`: of the result in the static
// form; 0: left as floats.
std::string coverage_graph(const CoverageRow& row, CoverageForm form, double scale,
                           const CoverageRanges& ranges = {});

}  // namespace octet
