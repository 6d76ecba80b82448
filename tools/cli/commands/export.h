// The options of `octet export`, which writes a program, quantized or not, as an ONNX file, and of
// octet.export_onnx in Python.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/common/options.h"
#include "tools/onnx/export.h"
#include "tools/onnx/model.h"

namespace octet {

struct ExportRequest {
  std::string model, onnx;
  OnnxOptions form;
  bool has_weights_beside = false;
  std::vector<std::string> libraries;

  OnnxWeights weights() const {
    return has_weights_beside ? OnnxWeights::kBeside : OnnxWeights::kAsFits;
  }
};

Options options_of(ExportRequest& request);

}  // namespace octet
