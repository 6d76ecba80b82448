// The options of octet lower, octet compare and octet export, for the command and for Python.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "lowering/lower.h"
#include "tools/cli/common/options.h"
#include "tools/onnx/export.h"
#include "tools/onnx/model.h"

namespace octet {

// Lowers a q/dq program to an .octet program for backends.
struct LowerRequest {
  std::string model, backend, output;
  LowerOptions options;
  bool explain = false;
  std::vector<std::string> libraries;
};

Options options_of(LowerRequest& request);

// Compares two programs op by op and finds the cause of their difference.
struct CompareRequest {
  std::vector<std::string> files, outputs, libraries;
  std::string inputs, labels, metric;
  size_t top = 20;
  std::optional<size_t> batches;  // by default all
  std::optional<double> min_sqnr, max_steps, max_drop;
};

Options options_of(CompareRequest& request);

// Writes a program, quantized or not, as an ONNX file.
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
