// Writes ONNX files.
#pragma once

#include <filesystem>

#include "tools/onnx/model.h"

namespace octet {

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
