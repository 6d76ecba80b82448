// Quantizes a float program as `octet quantize` does: calibrates, runs accuracy passes, converts,
// compares with the float program, and computes figures. Writes no file.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "annotate/convert/quantized_io.h"
#include "core/base/report.h"
#include "core/graph/graph.h"
#include "tools/cli/common/sample_data.h"
#include "tools/cli/quantize/effort.h"
#include "tools/cli/quantize/flow.h"
#include "tools/cli/quantize/quality.h"
#include "tools/cli/quantize/report_file.h"

namespace octet {

// options_of() describes the members.
struct QuantizeRequest {
  QuantizeFlow flow;
  EffortOptions effort;
  DataOptions data;
  std::string state;  // files of `octet calibrate`; "": none
  bool reference = false;
  std::string qdq = "decomposed";
  bool quantized_io = false;
  std::vector<size_t> quantized_inputs, quantized_outputs;
  std::string for_backend = {};  // "": that of the quantizer, if it has one
  bool drops_example_inputs = false;
  // used by the command, which writes files
  std::string output, report, dump_annotations;
  bool strict = false;

  // In place of data.calibration: batches that are read once. The last ones are held by the name
  // `kept` afterwards, and compared on unless data.evaluate names others.
  BatchSource stream = {};
  std::string kept;

  bool wants_pages = false;  // QuantizeResult::pages
  // Called with the text of annotations_to_json() once observers have their ranges.
  std::function<void(const std::string& annotations)> annotated = {};
  Peers* peers = nullptr;  // other processes, each with a part of the data; null: none

  bool has_quantized_io() const {
    return quantized_io || !quantized_inputs.empty() || !quantized_outputs.empty();
  }
};

Options options_of(QuantizeRequest& request);

struct QuantizeResult {
  Graph graph;  // with quantize and dequantize ops
  Report report;
  Weight weight;
  nlohmann::ordered_json figures;   // quality_json
  QuantizedIo io;                   // with has_quantized_io()
  std::optional<ReportFile> pages;  // refers to the request's flow, which must outlive it
};

// Prints warnings and progress (tools/cli/common/messages.h). Throws Error, and
// CLI::ValidationError for members that conflict.
QuantizeResult quantize_model(const QuantizeRequest& request);

}  // namespace octet
