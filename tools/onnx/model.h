// Represents an ONNX model in memory: nodes that name the values they read and give. Needs neither
// LibTorch nor protobuf; write_onnx() writes it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/dtype.h"
#include "core/base/tensor.h"

namespace octet {

// The numbers of TensorProto.DataType.
enum class OnnxType {
  kFloat = 1,
  kUInt8 = 2,
  kInt8 = 3,
  kUInt16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kBool = 9,
  kFloat16 = 10,
  kDouble = 11,
  kUInt32 = 12,
  kUInt64 = 13,
  kBFloat16 = 16,
  kUInt4 = 21,
  kInt4 = 22,
};
// Throws Error("onnx", subject, ...) for complex numbers and floats of 8 bits.
OnnxType onnx_type_of(DType dtype, const std::string& subject);
// "f32", "i8", "u4", as in the text of graphs.
std::string short_name_of(OnnxType type);

struct OnnxGraph;

// The value of an attribute. A Tensor may have any dtype that onnx_type_of() accepts; a graph is
// the body of If, Loop or Scan.
using OnnxAttribute = std::variant<int64_t, float, std::string, std::vector<int64_t>,
                                   std::vector<std::string>, Tensor, std::shared_ptr<OnnxGraph>>;
using OnnxAttributes = std::vector<std::pair<std::string, OnnxAttribute>>;

struct OnnxNode {
  std::string op;                    // a standard ONNX operator: "QuantizeLinear"
  std::string name;                  // unique: "layer1.0.conv1/conv2d_3"
  std::vector<std::string> inputs;   // "": absent
  std::vector<std::string> outputs;  // "": unused
  OnnxAttributes attributes;
  std::vector<std::pair<std::string, std::string>> metadata;
};

// A constant. For 4-bit types `data` is u8 with two elements per byte, the first in the low half.
struct OnnxInitializer {
  std::string name;
  OnnxType type = OnnxType::kFloat;
  std::vector<int64_t> shape;
  Tensor data;  // contiguous
};

// A size: a number, or the name of an open size.
struct OnnxDim {
  int64_t value = 0;
  std::string name;  // "" when it is a number
};

// An input or output of the model.
struct OnnxValue {
  std::string name;
  OnnxType type = OnnxType::kFloat;
  std::vector<OnnxDim> dims;
};

// Nodes in execution order. A body reads values of the surrounding graphs by name.
struct OnnxGraph {
  std::vector<OnnxNode> nodes;
  std::vector<OnnxValue> inputs, outputs;
};

struct OnnxModel : OnnxGraph {
  int64_t opset = 17;
  std::vector<OnnxInitializer> initializers;  // also those of bodies
  std::vector<std::pair<std::string, std::string>> metadata;
};

// Prints one line per node, for tests and people: "%y = Conv(%x, %w) {kernel_shape=[3, 3]}". Small
// numeric constants are printed in place as "i64[1, 2]", others by name; bodies follow their node.
std::string to_text(const OnnxModel& model);

// Writes ONNX files.
enum class OnnxWeights {
  kAsFits,  // in the file, unless it would be too large for protobuf's 2 GB
  kBeside,  // weights of at least 1 KB are in NAME.data, next to the file
};

struct OnnxFiles {
  size_t bytes = 0;               // size of the file itself
  std::filesystem::path weights;  // the file NAME.data; empty if there is none
};

// Writes the model whole or not at all (core/base/output_file.h), the weights' file first. Throws
// Error("onnx", path, ...). This is the only visible symbol of file.cpp, because Python's module
// calls it across libraries.
__attribute__((visibility("default"))) OnnxFiles
write_onnx(const OnnxModel& model, const std::filesystem::path& path,
           OnnxWeights weights = OnnxWeights::kAsFits);

}  // namespace octet
