#include "tools/cli/tune/trials.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/json_text.h"
#include "core/base/output_file.h"

namespace octet {
namespace {

using Json = nlohmann::ordered_json;

Json finite_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

std::optional<double> find_number(const Json& json, const char* key) {
  return json.at(key).is_null() ? std::nullopt : std::optional(json.at(key).get<double>());
}

Trial from_json(const Json& json) {
  Trial trial{.label = json.at("label"), .config = json.at("config")};
  trial.error = find_number(json, "error").value_or(std::numeric_limits<double>::infinity());
  trial.float_share = json.at("float_share");
  trial.int16_share = json.value("int16_share", 0.0);
  trial.latency_ms = find_number(json, "latency_ms");
  trial.accuracy = find_number(json, "accuracy");
  trial.weight_bits = find_number(json, "weight_bits");
  if (const auto metric = json.find("metric"); metric != json.end())
    trial.metric = find_number(json, "metric").value_or(std::numeric_limits<double>::infinity());
  if (json.contains("bytes")) trial.bytes = find_number(json, "bytes");
  if (json.contains("divergence")) trial.divergence = find_number(json, "divergence");
  trial.sqnr_db = find_number(json, "sqnr_db").value_or(std::numeric_limits<double>::infinity());
  return trial;
}

}  // namespace

double relative_error_of(double sqnr_db) { return std::pow(10.0, -sqnr_db / 10); }

OutputGoal OutputGoal::of_sqnr(double least_db) {
  return {Kind::kSqnr, relative_error_of(least_db)};
}

OutputGoal OutputGoal::of_least() {
  return {Kind::kLeast, std::numeric_limits<double>::infinity()};
}

OutputGoal OutputGoal::of_drop(double most_lost) { return {Kind::kDrop, most_lost}; }

OutputGoal OutputGoal::of_metric(const std::string& name, double least, double best) {
  if (std::isnan(best) || (std::isinf(best) && best < 0))
    throw Error("tune", name,
                fmt::format("gives {} for the float program's outputs beside themselves, want the "
                            "largest number that it has",
                            best));
  if (best < least)
    throw Error("tune", fmt::format("--min-metric {}", least),
                fmt::format("is more than {} gives for the float program beside itself, {}; ask "
                            "for less",
                            name, best));
  OutputGoal goal(Kind::kMetric, 0);
  goal.metric_ = name;
  goal.best_ = best;
  goal.most_error_ = goal.error_of_metric(least);
  return goal;
}

double OutputGoal::error_of(const Quality& quality) const {
  if (kind_ == Kind::kLeast && quality.metric) return -*quality.metric;
  if (kind_ == Kind::kSqnr || kind_ == Kind::kLeast) return relative_error_of(quality.median_db);
  if (kind_ == Kind::kDrop) return *quality.float_accuracy - *quality.accuracy;
  if (std::isnan(*quality.metric))
    throw Error("tune", metric_,
                "gives NaN for the outputs of a batch, want a number for each of them");
  return error_of_metric(*quality.metric);
}

// Treats a metric without an upper bound as decibels, like peak signal-to-noise.
double OutputGoal::error_of_metric(double value) const {
  return std::isinf(best_) ? relative_error_of(value) : best_ - value;
}

Json to_json(const Trial& trial) {
  Json json = {{"label", trial.label},
               {"config", trial.config},
               {"sqnr_db", finite_or_null(trial.sqnr_db)},
               {"error", finite_or_null(trial.error)},
               {"float_share", trial.float_share},
               {"int16_share", trial.int16_share},
               {"accuracy", nullptr},
               {"latency_ms", nullptr},
               {"weight_bits", nullptr}};
  if (trial.accuracy) json["accuracy"] = *trial.accuracy;
  if (trial.weight_bits) json["weight_bits"] = *trial.weight_bits;
  if (trial.metric) json["metric"] = finite_or_null(*trial.metric);
  if (trial.latency_ms) json["latency_ms"] = *trial.latency_ms;
  if (trial.bytes) json["bytes"] = *trial.bytes;
  if (trial.divergence) json["divergence"] = finite_or_null(*trial.divergence);
  return json;
}

std::string figures_of(const Trial& trial, const std::string& metric) {
  std::string text = fmt::format("{:.1f} dB", trial.sqnr_db);
  if (trial.divergence) text += fmt::format(", KL divergence {:.4f}", *trial.divergence);
  if (trial.accuracy) text += fmt::format(", accuracy {:.2f} %", 100 * *trial.accuracy);
  if (trial.metric) text += fmt::format(", {} {:.6g}", metric, *trial.metric);
  text += trial.weight_bits ? fmt::format(", {:.2f} bits a weight", *trial.weight_bits)
                            : fmt::format(", {:.1f} % of the multiply-accumulates in float",
                                          100 * trial.float_share);
  if (trial.bytes) text += fmt::format(", {:.2f} MB", *trial.bytes / 1e6);
  if (trial.int16_share > 0)
    text += fmt::format(", {:.1f} % with 16 bits", 100 * trial.int16_share);
  if (trial.latency_ms) text += fmt::format(", {:.3f} ms", *trial.latency_ms);
  return text;
}

TrialFile::TrialFile(std::string file, std::string run, bool writes)
    : file_(std::move(file)), run_(std::move(run)), writes_(writes) {
  if (file_.empty() || !std::filesystem::exists(file_)) return;
  std::ifstream stream(file_);
  std::stringstream text;
  text << stream.rdbuf();
  try {
    const Json json = parse_json<Json>(text.str());
    if (json.at("run") != run_)
      throw Error("tune", file_,
                  "belongs to a run with another model, other data or options; name another "
                  "--checkpoint or remove it");
    costs_ = json.at("costs").get<std::map<std::string, double>>();
    for (const Json& trial : json.at("trials")) trials_.push_back(from_json(trial));
  } catch (const Json::exception&) {
    throw Error("tune", file_,
                "is damaged or no checkpoint of `octet tune`; name another --checkpoint or remove "
                "it");
  }
}

std::optional<Trial> TrialFile::find(const Json& config) const {
  for (const Trial& trial : trials_)
    if (trial.config == config) return trial;
  return std::nullopt;
}

void TrialFile::add(const Trial& trial) {
  trials_.push_back(trial);
  write();
}

void TrialFile::keep_costs(std::map<std::string, double> costs) {
  costs_ = std::move(costs);
  write();
}

void TrialFile::write() const {
  if (file_.empty() || !writes_) return;
  Json json = {{"run", run_}, {"costs", costs_}, {"trials", Json::array()}};
  for (const Trial& each : trials_) json["trials"].push_back(to_json(each));
  write_file(file_, dump_json(json, 1) + "\n", "outputs");
}

}  // namespace octet
