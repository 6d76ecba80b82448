// Computes the figures that `octet quantize` prints: how close the quantized program is to the
// float one, how much of it is int8, and its size.
#pragma once

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

// The stage of evaluate() in a Progress, and its cost per batch in runs of the float program.
inline constexpr const char* kEvaluateStage = "evaluate";
inline constexpr double kEvaluateCost = 3;

struct Quality {
  std::string batches = {};  // SampleData::description
  // SQNR of all float outputs of a batch; infinite if they are equal
  double median_db = 0, worst_db = 0;
  // share of samples with the same largest output as the float program, for outputs [samples,
  // classes]
  std::optional<double> same_top1 = {};
  std::optional<double> float_accuracy = {}, accuracy = {};  // with labels
  std::optional<double> metric = {};                         // mean over float outputs and batches
};

// Multiply-accumulates and bytes of both programs.
struct Weight {
  // share of multiply-accumulates (of convolutions, matrix products, attention and recurrent ops)
  // that multiply two dequantized tensors
  double int8_share = 0;
  double int16_share = 0;  // the part of it with int16 activations
  // Share of multiply-accumulates that are eligible: all except those that the mode itself leaves
  // float (kModeStage: products of two activations in dynamic and weight-only mode). Ops that
  // settings exclude are eligible.
  double eligible_share = 0;
  // Share of the eligible ones that are quantized: products of two dequantized tensors, and those
  // with quantized (or float16) weights that the report does not list as float. Nullopt if none is
  // eligible.
  std::optional<double> quantized_share = {};
  // The share that a backend computes with integers once the program is lowered for it (above,
  // int8_share is what was annotated), and its name; nullopt where it was not lowered.
  std::optional<double> backend_share = {};
  std::string backend = {};
  // mean bits per weight of these ops: 32 for floats; nullopt without weights
  std::optional<double> weight_bits = {};
  size_t float_bytes = 0, bytes = 0;
  struct Reason {
    std::string text;
    size_t ops = 0;
    double share = 0;       // share of the multiply-accumulates
    std::string node = {};  // the op with the largest share
    double node_share = 0;
    bool is_of_mode = false;
  };
  std::vector<Reason> reasons;  // for float, by share, then by ops
};

// `octet quantize` warns (with --strict: fails) if a smaller share of the eligible
// multiply-accumulates is quantized, because quantization then hardly pays.
inline constexpr double kLeastShare = 0.9;

// `octet quantize` warns if the median SQNR of the outputs is lower: the noise then has a third of
// the signal's magnitude.
inline constexpr double kLeastDecibels = 10;

// Runs both programs on the batches. peers: other processes that do the same, each on a part of the
// batches; all get the same result, with the bits of a single process; null: none. Throws
// Error("evaluate", ...) if the labels do not fit.
Quality evaluate(const Graph& original, const Graph& quantized, const SampleData& data,
                 Progress& progress, Peers* peers = nullptr);
// Evaluates programs that functions run. batch: its position in the data.
using BatchOutputs =
    std::function<std::vector<c10::IValue>(size_t batch, const std::vector<c10::IValue>& inputs)>;
Quality evaluate(const BatchOutputs& float_program, const BatchOutputs& program,
                 const SampleData& data, Progress& progress, Peers* peers = nullptr,
                 const Metric& metric = {});
// report: lists the ops that stayed float.
Weight weigh(const Graph& original, const Graph& quantized, const Report& report);

// The figures as name and text: the rows of the report page, and, aligned, the lines on the
// terminal. quality: of quality_json.
std::vector<std::pair<std::string, std::string>> quality_rows(
    const nlohmann::ordered_json& quality);
std::vector<std::string> quality_lines(const nlohmann::ordered_json& quality);

// The quality of the result and, with accuracy passes, of the same calibration without them.
struct Measured {
  std::optional<Quality> now, before;
};

// {"batches", "median_sqnr_db", "worst_sqnr_db", "same_top1", "float_accuracy", "accuracy",
// "before": {"median_sqnr_db", "worst_sqnr_db", "same_top1", "accuracy"}, "int8_share",
// "eligible_share", "quantized_share", "backend", "backend_share", "float_bytes", "bytes",
// "reasons": [{"reason", "ops", "node", "share"}...], "seconds"}; what was not measured is null, an
// infinite ratio too.
nlohmann::ordered_json quality_json(const Measured& measured, const Weight& weight, double seconds);

}  // namespace octet
