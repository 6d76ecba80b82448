#include "tools/page/verdict.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace octet {
namespace {

using VerdictJson = nlohmann::ordered_json;

constexpr double kGoodDecibels = 30, kFairDecibels = 20;
constexpr size_t kMostOps = 3;
// From these on, an op is worth a look although its error was not measured.
constexpr double kManyClipped = 0.01, kLowWeightDecibels = 20, kMuchArithmetic = 0.1;

std::optional<double> number_of(const VerdictJson& value) {
  if (value.is_number()) return value.get<double>();
  if (value == "inf") return HUGE_VAL;
  if (value == "-inf") return -HUGE_VAL;
  return std::nullopt;
}

// The value at a JSON pointer such as "/weight/sqnr_db"; null if there is none.
VerdictJson find_in(const VerdictJson& object, const std::string& pointer) {
  const VerdictJson::json_pointer place(pointer);
  return object.contains(place) ? object.at(place) : VerdictJson();
}

std::string text_in(const VerdictJson& node, const char* key) {
  const VerdictJson found = find_in(node, std::string("/") + key);
  return found.is_string() ? found.get<std::string>() : "";
}

// A sentence about an op, and how much it matters among those of its kind.
struct Finding {
  double weight;
  std::string name, text;
};

VerdictJson worst_of(std::vector<Finding> findings) {
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return a.weight > b.weight; });
  findings.resize(std::min(findings.size(), kMostOps));
  VerdictJson ops = VerdictJson::array();
  for (Finding& finding : findings)
    ops.push_back({{"name", std::move(finding.name)}, {"text", std::move(finding.text)}});
  return ops;
}

// The ops that add the largest errors, by rank.
std::vector<Finding> measured_ops(const VerdictJson& nodes) {
  std::vector<Finding> findings;
  for (const VerdictJson& node : nodes) {
    const std::optional<double> rank = number_of(find_in(node, "/rank"));
    const std::string cause = text_in(node, "cause"), why = text_in(node, "explanation");
    if (!rank || cause.empty() || cause == "none" || cause == "accumulated") continue;
    std::string text = fmt::format("{}{}{}.", cause, why.empty() ? "" : ": ", why);
    if (!find_in(node, "/suggestion").is_null())
      text += cause == "clipped" ? " Try a wider range: its details have the setting."
                                 : " Try it in float: its details have the setting.";
    findings.push_back({-*rank, text_in(node, "name"), std::move(text)});
  }
  return findings;
}

double arithmetic_of(const VerdictJson& nodes) {
  double all = 0;
  for (const VerdictJson& node : nodes) all += number_of(find_in(node, "/macs")).value_or(0);
  return all;
}

// The median of the channels: a channel of tiny values has a low ratio and does no harm.
double middle_channel(const VerdictJson& node) {
  const VerdictJson listed = find_in(node, "/weight/sqnr_db");
  std::vector<double> ratios;
  if (listed.is_array())
    for (const VerdictJson& ratio : listed)
      if (const std::optional<double> number = number_of(ratio)) ratios.push_back(*number);
  if (ratios.empty()) return HUGE_VAL;
  const auto middle = ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2);
  std::nth_element(ratios.begin(), middle, ratios.end());
  return *middle;
}

std::vector<Finding> suspicious_ops(const VerdictJson& nodes) {
  const double all = arithmetic_of(nodes);
  std::vector<Finding> findings;
  for (const VerdictJson& node : nodes) {
    const std::string name = text_in(node, "name");
    const double share = all == 0 ? 0 : number_of(find_in(node, "/macs")).value_or(0) / all;
    const double clipped = number_of(find_in(node, "/output/clipped_share")).value_or(0);
    const double ratio = middle_channel(node);
    if (text_in(node, "status") == "float" && share >= kMuchArithmetic)
      findings.push_back({2 + share, name,
                          fmt::format("stays float, with {:.0f} % of the arithmetic: {}.",
                                      100 * share, text_in(node, "reason"))});
    else if (clipped >= kManyClipped)
      findings.push_back({1 + clipped, name,
                          fmt::format("{:.2g} % of its values are clipped. Try the observer "
                                      "min_max.",
                                      100 * clipped)});
    else if (ratio < kLowWeightDecibels)
      findings.push_back(
          {-ratio / 1000, name,
           fmt::format("half of the channels of its weight have {:.1f} dB or less. Try "
                       "a scale per channel, or the op in float.",
                       ratio)});
  }
  return findings;
}

std::string distance_text(double decibels) {
  if (std::isinf(decibels) && decibels > 0) return "The outputs equal those of the float program.";
  return fmt::format("The outputs differ from the float program's by {:.2g} % ({:.1f} dB)",
                     100 * std::pow(10, -decibels / 20), decibels);
}

std::string next_of(const std::string& kind, bool is_measured) {
  if (!is_measured)
    return "To measure each op: octet compare FLOAT.pt2 QUANTIZED.pt2 --inputs DATA.pt --output "
           "F.html";
  return kind == "compare" ? "octet tune searches for the settings that are accurate enough." : "";
}

}  // namespace

nlohmann::ordered_json verdict_of(const nlohmann::ordered_json& data) {
  const VerdictJson nodes = data.value("nodes", VerdictJson::array());
  const bool is_measured = std::any_of(nodes.begin(), nodes.end(), [](const VerdictJson& node) {
    return !find_in(node, "/rank").is_null();
  });
  const std::optional<double> decibels = number_of(find_in(data, "/output_sqnr_db"));
  const bool is_good = decibels && *decibels >= kGoodDecibels;
  const VerdictJson ops = is_good && is_measured ? VerdictJson::array()
                          : is_measured          ? worst_of(measured_ops(nodes))
                                                 : worst_of(suspicious_ops(nodes));
  std::string level = "unknown", text =
                                     "No data told how far the outputs are from the float "
                                     "program's: give --evaluate DATA.pt.";
  if (decibels) {
    text = distance_text(*decibels);
    level = is_good ? "good" : *decibels >= kFairDecibels ? "fair" : "poor";
    if (is_good && std::isfinite(*decibels)) text += ".";
    if (level == "fair") text += ": most classes stay the same.";
    if (level == "poor") text += ": many results change.";
  }
  if (!ops.empty())
    text += ops.size() == 1 ? " Look at this op first:"
                            : fmt::format(" Look at these {} ops first:", ops.size());
  return {{"level", level},
          {"text", text},
          {"ops", ops},
          {"next", is_good ? "" : next_of(data.value("kind", ""), is_measured)}};
}

}  // namespace octet
