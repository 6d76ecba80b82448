#include "tools/cli/tune/trial_file.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "core/base/error.h"
#include "core/base/output_file.h"

namespace octet {
namespace {

using Json = nlohmann::ordered_json;

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

std::optional<double> find_number(const Json& json, const char* key) {
  return json.at(key).is_null() ? std::nullopt : std::optional(json.at(key).get<double>());
}

Trial from_json(const Json& json) {
  Trial trial{.label = json.at("label"), .config = json.at("config")};
  trial.error = find_number(json, "error").value_or(std::numeric_limits<double>::infinity());
  trial.float_share = json.at("float_share");
  trial.latency_ms = find_number(json, "latency_ms");
  trial.accuracy = find_number(json, "accuracy");
  trial.weight_bits = find_number(json, "weight_bits");
  if (const auto metric = json.find("metric"); metric != json.end())
    trial.metric = find_number(json, "metric").value_or(std::numeric_limits<double>::infinity());
  trial.sqnr_db = find_number(json, "sqnr_db").value_or(std::numeric_limits<double>::infinity());
  return trial;
}

}  // namespace

Json to_json(const Trial& trial) {
  Json json = {{"label", trial.label},
               {"config", trial.config},
               {"sqnr_db", number(trial.sqnr_db)},
               {"error", number(trial.error)},
               {"float_share", trial.float_share},
               {"accuracy", nullptr},
               {"latency_ms", nullptr},
               {"weight_bits", nullptr}};
  if (trial.accuracy) json["accuracy"] = *trial.accuracy;
  if (trial.weight_bits) json["weight_bits"] = *trial.weight_bits;
  if (trial.metric) json["metric"] = number(*trial.metric);
  if (trial.latency_ms) json["latency_ms"] = *trial.latency_ms;
  return json;
}

TrialFile::TrialFile(std::string file, std::string run, bool writes)
    : file_(std::move(file)), run_(std::move(run)), writes_(writes) {
  if (file_.empty() || !std::filesystem::exists(file_)) return;
  std::ifstream stream(file_);
  std::stringstream text;
  text << stream.rdbuf();
  try {
    const Json json = Json::parse(text.str());
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
  write_file(file_, json.dump(1) + "\n", "outputs");
}

}  // namespace octet
