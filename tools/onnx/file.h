// Writes ONNX files.
#pragma once

#include <filesystem>

#include "tools/onnx/model.h"

namespace octet {

enum class OnnxWeights {
  kAsFits,  // in the file, unless it would be too large for protobuf's 2 GB
  kBeside,  // those of at least a kilobyte in NAME.data beside the file
};

struct OnnxFiles {
  size_t bytes = 0;               // of the file itself
  std::filesystem::path weights;  // the file beside it; empty when there is none
};

// Appears whole or not at all, as core/base/output_file.h writes; the weights' file first. Throws
// Error("onnx", path, ...). Visible, unlike all else of file.cpp: Python's module calls it across
// libraries.
__attribute__((visibility("default"))) OnnxFiles
write_onnx(const OnnxModel& model, const std::filesystem::path& path,
           OnnxWeights weights = OnnxWeights::kAsFits);

}  // namespace octet
