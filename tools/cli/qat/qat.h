// Trains a float program with fake quantization and quantizes it, as `octet qat` does. Also reads
// the program of a run that is still training. Writes checkpoints, but no other file.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "core/base/report.h"
#include "core/graph/graph.h"
#include "tools/cli/processes/processes.h"
#include "tools/cli/qat/train.h"
#include "tools/cli/quantize/flow.h"
#include "tools/cli/quantize/report_file.h"

namespace octet {

// options_of() describes the members.
struct QatRequest {
  QuantizeFlow flow{.is_training = true};
  TrainOptions train;
  std::string device = "cpu";
  std::string output, report;  // used by the command, which writes files
};

Options options_of(QatRequest& request);

struct QatResult {
  Graph graph;  // with quantize and dequantize ops
  Report report;
  nlohmann::ordered_json figures;   // quality_json
  std::optional<ReportFile> pages;  // refers to the request's flow, which must outlive it
};

// Returns nullopt in all processes except the first. Throws Error, also for options that conflict.
std::optional<QatResult> train_model(const QatRequest& request, Processes& processes,
                                     bool wants_pages);

// The program that `octet qat` would write if it ended now. checkpoint: a file of its --checkpoint;
// model: the float .pt2. The libraries of the run must be loaded. Throws Error("compare",
// checkpoint, ...) for a file that is not a checkpoint, is damaged, or belongs to another model,
// and what preparing the model throws.
Graph read_trained(const std::string& checkpoint, const std::string& model);

}  // namespace octet
