// Chooses the bits of the weights of each op for a goal of a size, as `octet tune --max-size` does.
#pragma once

#include <cstddef>
#include <functional>
#include <iterator>
#include <string>

#include <nlohmann/json.hpp>

#include "annotate/compare/diagnosis.h"
#include "annotate/compare/metric.h"
#include "core/graph/graph.h"
#include "tools/cli/tune/base_settings.h"
#include "tools/cli/tune/search.h"
#include "tools/cli/tune/tuner.h"

namespace octet {

// The bits that it chooses from, ascending.
inline constexpr int kWidths[] = {3, 4, 8};
// At most this many trials combine several widths.
inline constexpr size_t kMixes = std::size(kWidths) - 1;

// How the search gets programs. `config` is in addition to the settings that all programs have.
struct WidthPrograms {
  // The last program is kept. Throws NothingToQuantize.
  std::function<const Graph&(const nlohmann::ordered_json& config)> quantized;
  std::function<double(const nlohmann::ordered_json& config)> bytes;  // of the .octet file
  std::function<Sensitivities(const Graph& quantized)> sensitivities;
  MakeTrial make_trial;
};

// The KL divergence of logits as a metric, whose larger values are better. NaN for other outputs.
Metric minus_divergence(int64_t vocabulary);

// Throws Error("tune", "--max-size", ...) if rows cannot set the bits of all ops.
void check_widths(const BaseSettings& base, const std::string& quantizer);

// Quantizes the whole program with each width, mixes widths by the loss that each byte saves, and
// takes the trial with the least error among those of at most `most_megabytes`. estimate: gets the
// worst estimate. Throws Error("tune", "--max-size", ...) if no trial is small enough.
TuneOutcome search_widths(const BaseSettings& base, double most_megabytes,
                          const WidthPrograms& programs, Estimate& estimate);

}  // namespace octet
