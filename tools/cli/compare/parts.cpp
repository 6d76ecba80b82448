// Packs the sums of a comparison as text and adds those of other processes (`octet compare` under
// mpirun).
#include "tools/cli/compare/report.h"

#include <algorithm>

#include "core/base/error.h"

namespace octet {
namespace {

using Json = nlohmann::ordered_json;

Json stats_json(const ErrorStats& stats) {
  return {stats.signal,  stats.energy,   stats.product, stats.noise,
          stats.largest, stats.elements, stats.strange};
}

ErrorStats stats_of_json(const Json& json) {
  return {.signal = json.at(0),
          .energy = json.at(1),
          .product = json.at(2),
          .noise = json.at(3),
          .largest = json.at(4),
          .elements = json.at(5),
          .strange = json.at(6)};
}

// Sums over batches, to combine means; nothing without a metric.
struct Batches {
  double known = 0, more = 0;
};

void add_mean(std::optional<double>& mean, const Json& json, Batches batches) {
  if (mean && !json.is_null())
    mean = (*mean * batches.known + json.get<double>() * batches.more) /
           (batches.known + batches.more);
}

Json metric_json(const std::optional<double>& metric) {
  return metric ? Json(*metric) : Json(nullptr);
}

void add_op(OpComparison& op, const Json& json, Batches batches) {
  const auto seen = static_cast<double>(op.accumulated.elements);
  const ErrorStats accumulated = stats_of_json(json.at("accumulated"));
  const auto more = static_cast<double>(accumulated.elements);
  if (seen + more > 0)
    op.clipped_share =
        (op.clipped_share * seen + json.at("clipped_share").get<double>() * more) / (seen + more);
  op.clipped_noise += json.at("clipped_noise").get<double>();
  op.accumulated.merge(accumulated);
  op.isolated.merge(stats_of_json(json.at("isolated")));
  op.before.merge(stats_of_json(json.at("before")));
  add_mean(op.metric, json.at("metric"), batches);
  const auto peaks = json.at("peaks").get<std::vector<float>>();
  if (peaks.size() == op.channel_peaks.size())
    for (size_t i = 0; i < peaks.size(); ++i)
      op.channel_peaks[i] = std::max(op.channel_peaks[i], peaks[i]);
  // all processes use bins of the rounding's range
  const auto counts = json.at("counts").get<std::vector<int64_t>>();
  if (op.rounding && counts.size() == op.histogram.counts.size())
    for (size_t i = 0; i < counts.size(); ++i) op.histogram.counts[i] += counts[i];
}

}  // namespace

std::string pack_sums(const ComparisonReport& report) {
  Json ops = Json::array(), lowered = Json::array();
  for (const OpComparison& op : report.comparison.ops)
    ops.push_back({{"accumulated", stats_json(op.accumulated)},
                   {"isolated", stats_json(op.isolated)},
                   {"before", stats_json(op.before)},
                   {"clipped_share", op.clipped_share},
                   {"clipped_noise", op.clipped_noise},
                   {"peaks", op.channel_peaks},
                   {"counts", op.histogram.counts},
                   {"metric", metric_json(op.metric)}});
  Json json = {{"ops", std::move(ops)},
               {"outputs", stats_json(report.comparison.outputs)},
               {"batches", report.comparison.batches},
               {"metric", metric_json(report.comparison.metric)},
               {"lowered", nullptr}};
  if (report.lowered) {
    for (const LoweredOp& op : report.lowered->ops) lowered.push_back(stats_json(op.error));
    json["lowered"] = {{"ops", std::move(lowered)},
                       {"outputs", stats_json(report.lowered->outputs)}};
  }
  const std::vector<uint8_t> bytes = Json::to_msgpack(json);  // keeps infinities
  return {bytes.begin(), bytes.end()};
}

void add_sums(ComparisonReport& report, const std::string& packed) {
  const Json json = Json::from_msgpack(packed);
  const bool is_same = json.at("ops").size() == report.comparison.ops.size() &&
                       json.at("lowered").is_null() != report.lowered.has_value();
  if (!is_same)
    throw Error("compare", "a process", "had other programs; give every process the same files");
  const Batches batches{static_cast<double>(report.comparison.batches),
                        json.at("batches").get<double>()};
  for (size_t i = 0; i < report.comparison.ops.size(); ++i)
    add_op(report.comparison.ops[i], json.at("ops").at(i), batches);
  add_mean(report.comparison.metric, json.at("metric"), batches);
  report.comparison.outputs.merge(stats_of_json(json.at("outputs")));
  report.comparison.batches += json.at("batches").get<size_t>();
  if (!report.lowered) return;
  const Json& lowered = json.at("lowered");
  for (size_t i = 0; i < report.lowered->ops.size() && i < lowered.at("ops").size(); ++i)
    report.lowered->ops[i].error.merge(stats_of_json(lowered.at("ops").at(i)));
  report.lowered->outputs.merge(stats_of_json(lowered.at("outputs")));
}

}  // namespace octet
