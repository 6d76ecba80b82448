// The figures that `octet quantize` prints: how near the quantized program is to the float one, how
// much of it is int8, and its size.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/ivalue.h>
#include <nlohmann/json.hpp>

#include "annotate/compare/metric.h"
#include "annotate/observed/peers.h"
#include "core/base/report.h"
#include "core/graph/graph.h"
#include "tools/cli/common/sample_data.h"

namespace octet {

class Progress;

// The stage of evaluate() in a Progress, and what it costs for each batch in runs of the float
// program.
inline constexpr const char* kEvaluateStage = "evaluate";
inline constexpr double kEvaluateCost = 3;

struct Quality {
  std::string batches = {};  // SampleData::description
  // SQNR of all float outputs of a batch; infinite when they are equal
  double median_db = 0, worst_db = 0;
  // share of samples whose largest output is the float program's; of outputs [samples, classes]
  std::optional<double> same_top1 = {};
  std::optional<double> float_accuracy = {}, accuracy = {};  // with labels
  std::optional<double> metric = {};  // mean over batches of the mean over float outputs
};

// Multiply-accumulates and bytes of both programs.
struct Weight {
  // of the multiply-accumulates of convolutions, matrix products, attention and recurrent ops;
  // those that multiply two dequantized tensors
  double int8_share = 0;
  // Eligible are all multiply-accumulates but those of ops that the mode leaves float by itself
  // (kModeStage: products of two activations in dynamic and weight-only mode). What settings leave
  // out is eligible.
  double eligible_share = 0;  // of all
  // Share of the eligible ones: those of two dequantized tensors, and those with quantized (or
  // float16) weights that the report does not name as float. Nothing when none is eligible.
  std::optional<double> quantized_share = {};
  // of a weight of these ops, in the mean: 32 in floats; nothing without weights
  std::optional<double> weight_bits = {};
  size_t float_bytes = 0, bytes = 0;
  struct Reason {
    std::string text;
    size_t ops = 0;
    double share = 0;       // of the multiply-accumulates
    std::string node = {};  // the op with the largest share
    double node_share = 0;
    bool is_of_mode = false;
  };
  std::vector<Reason> reasons;  // for float, by share, then by ops
};

// Share of the eligible multiply-accumulates below which quantization hardly pays, and `octet
// quantize` warns (with --strict it fails).
inline constexpr double kLeastShare = 0.9;

// Median SQNR of the outputs below which `octet quantize` warns: noise has a third of the signal's
// size.
inline constexpr double kLeastDecibels = 10;

// Runs both programs on the batches. peers: processes that do the same, each on a part of the
// batches; all get the result, with the bits of one process; null: none. Throws Error("evaluate",
// ...) when the labels do not fit.
Quality evaluate(const Graph& original, const Graph& quantized, const SampleData& data,
                 Progress& progress, Peers* peers = nullptr);
// Programs that are run some other way. batch: its position in the data.
using BatchOutputs =
    std::function<std::vector<c10::IValue>(size_t batch, const std::vector<c10::IValue>& inputs)>;
Quality evaluate(const BatchOutputs& float_program, const BatchOutputs& program,
                 const SampleData& data, Progress& progress, Peers* peers = nullptr,
                 const Metric& metric = {});
// report: what stayed float.
Weight weigh(const Graph& original, const Graph& quantized, const Report& report);

// What is told, as name and text: the rows of the report's page, and with the names in a column the
// lines on the terminal. quality: as quality_json gave it.
std::vector<std::pair<std::string, std::string>> quality_rows(
    const nlohmann::ordered_json& quality);
std::vector<std::string> quality_lines(const nlohmann::ordered_json& quality);

// What was measured: of the result, and with accuracy passes of what the same calibration gives
// without them.
struct Measured {
  std::optional<Quality> now, before;
};

// {"batches", "median_sqnr_db", "worst_sqnr_db", "same_top1", "float_accuracy", "accuracy",
// "before": {"median_sqnr_db", "worst_sqnr_db", "same_top1", "accuracy"}, "int8_share",
// "eligible_share", "quantized_share", "float_bytes", "bytes",
// "reasons": [{"reason", "ops", "node", "share"}...], "seconds"}; what was not measured is null, an
// infinite ratio too.
nlohmann::ordered_json quality_json(const Measured& measured, const Weight& weight, double seconds);

}  // namespace octet
