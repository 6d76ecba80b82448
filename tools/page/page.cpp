#include "tools/page/page.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/json_text.h"

namespace octet {
namespace {

using PageJson = nlohmann::ordered_json;

constexpr double kGoodDecibels = 30, kFairDecibels = 20;
constexpr size_t kMostOps = 3;
// From these on, an op is worth a look although its error was not measured.
constexpr double kManyClipped = 0.01, kLowWeightDecibels = 20, kMuchArithmetic = 0.1;

std::optional<double> number_of(const PageJson& value) {
  if (value.is_number()) return value.get<double>();
  if (value == "inf") return HUGE_VAL;
  if (value == "-inf") return -HUGE_VAL;
  return std::nullopt;
}

// The value at a JSON pointer such as "/weight/sqnr_db"; null if there is none.
PageJson find_in(const PageJson& object, const std::string& pointer) {
  const PageJson::json_pointer place(pointer);
  return object.contains(place) ? object.at(place) : PageJson();
}

std::string text_in(const PageJson& node, const char* key) {
  const PageJson found = find_in(node, std::string("/") + key);
  return found.is_string() ? found.get<std::string>() : "";
}

// A sentence about an op, and how much it matters among those of its kind.
struct Finding {
  double weight;
  std::string name, text;
};

PageJson worst_of(std::vector<Finding> findings) {
  std::ranges::stable_sort(findings,
                           [](const Finding& a, const Finding& b) { return a.weight > b.weight; });
  findings.resize(std::min(findings.size(), kMostOps));
  PageJson ops = PageJson::array();
  for (Finding& finding : findings)
    ops.push_back({{"name", std::move(finding.name)}, {"text", std::move(finding.text)}});
  return ops;
}

// The ops that add the largest errors, by rank.
std::vector<Finding> measured_ops(const PageJson& nodes) {
  std::vector<Finding> findings;
  for (const PageJson& node : nodes) {
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

double arithmetic_of(const PageJson& nodes) {
  double all = 0;
  for (const PageJson& node : nodes) all += number_of(find_in(node, "/macs")).value_or(0);
  return all;
}

// The median of the channels: a channel of tiny values has a low ratio and does no harm.
double middle_channel(const PageJson& node) {
  const PageJson listed = find_in(node, "/weight/sqnr_db");
  std::vector<double> ratios;
  if (listed.is_array())
    for (const PageJson& ratio : listed)
      if (const std::optional<double> number = number_of(ratio)) ratios.push_back(*number);
  if (ratios.empty()) return HUGE_VAL;
  const auto middle = ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2);
  std::nth_element(ratios.begin(), middle, ratios.end());
  return *middle;
}

std::vector<Finding> suspicious_ops(const PageJson& nodes) {
  const double all = arithmetic_of(nodes);
  std::vector<Finding> findings;
  for (const PageJson& node : nodes) {
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

std::string escape_html(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '&')
      result += "&amp;";
    else if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else if (c == '"')
      result += "&quot;";
    else if (c == '\'')
      result += "&#39;";
    else
      result += c;
  }
  return result;
}

std::string to_text(const PageJson& data) {
  return dump_json(data, -1, false, PageJson::error_handler_t::replace);
}

// Escapes JSON for an element <script>, so that no tag begins or ends in it.
std::string script_text(const std::string& json) {
  std::string result;
  result.reserve(json.size() + json.size() / 16);
  for (const char c : json) {
    if (c == '<')
      result += "\\u003c";
    else
      result += c;
  }
  return result;
}

// The nonce of the page's scripts, which markup that gets in by mistake lacks.
std::string nonce_of(const std::string& json) {
  return std::to_string(std::hash<std::string>{}(json));
}

std::string title_of(const PageJson& data) {
  std::string title = data.value("title", std::string("Octet"));
  // a title may be invalid UTF-8
  return parse_json<PageJson>(to_text(PageJson(std::move(title)))).get<std::string>();
}

}  // namespace

nlohmann::ordered_json verdict_of(const nlohmann::ordered_json& data) {
  const PageJson nodes = data.value("nodes", PageJson::array());
  const bool is_measured = std::ranges::any_of(
      nodes, [](const PageJson& node) { return !find_in(node, "/rank").is_null(); });
  const std::optional<double> decibels = number_of(find_in(data, "/output_sqnr_db"));
  const bool is_good = decibels && *decibels >= kGoodDecibels;
  const PageJson ops = is_good && is_measured ? PageJson::array()
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

std::string page_html(const nlohmann::ordered_json& data) {
  PageJson shown = shorten(data);
  shown["verdict"] = verdict_of(data);
  const std::string json = to_text(shown);
  const std::string nonce = nonce_of(json);
  const auto replacement_of = [&](std::string_view name) -> std::string {
    if (name == "title") return escape_html(title_of(data));
    if (name == "nonce") return nonce;
    if (name == "data") return script_text(json);
    return std::string(page_source(name));
  };
  std::string page;
  std::string_view rest = page_source("page.html");
  while (true) {
    const size_t begin = rest.find("{{");
    page += rest.substr(0, begin);
    if (begin == std::string_view::npos) return page;
    const size_t end = rest.find("}}", begin);
    page += replacement_of(rest.substr(begin + 2, end - begin - 2));
    rest.remove_prefix(end + 2);
  }
}

namespace {

struct SqnrStep {
  double below;  // dB; larger values count as equal
  const char* back;
  const char* text;
};

// The steps of the page's colors (page.css).
constexpr SqnrStep kSqnrSteps[] = {{10, "#993404", "#ffffff"}, {20, "#d95f0e", "#000000"},
                                   {30, "#fe9929", "#000000"}, {40, "#fec44f", "#000000"},
                                   {50, "#fee391", "#000000"}, {1000, "#ffffd4", "#000000"}};

// errors.KIND.sqnr_db of a node, or null; "inf" counts as the end of the scale.
PageJson sqnr_of(const PageJson& node, const char* kind) {
  const auto errors = node.find("errors");
  if (errors == node.end() || !errors->is_object()) return nullptr;
  const auto error = errors->find(kind);
  if (error == errors->end() || !error->is_object()) return nullptr;
  const PageJson value = error->value("sqnr_db", PageJson(nullptr));
  if (value.is_number()) return value;
  return value.is_string() && value == "inf" ? PageJson(1000) : PageJson(nullptr);
}

PageJson by_status(const PageJson& nodes) {
  PageJson results = PageJson::object();
  for (const PageJson& node : nodes) {
    const std::string status = node.value("status", std::string());
    if (status != "quantized" && status != "float") continue;
    const bool is_float = status == "float";
    results[node.at("name").get<std::string>()] = {
        {"value", status}, {"bgColor", is_float ? "#fe9929" : "#cfe2f3"}, {"textColor", "#000000"}};
  }
  return results;
}

}  // namespace

nlohmann::ordered_json model_explorer_data(const nlohmann::ordered_json& data) {
  const PageJson nodes = data.value("nodes", PageJson::array());
  for (const char* kind : {"accumulated", "isolated", "lowering"}) {
    PageJson results = PageJson::object();
    for (const PageJson& node : nodes)
      if (const PageJson value = sqnr_of(node, kind); !value.is_null())
        results[node.at("name").get<std::string>()] = {{"value", value}};
    if (results.empty()) continue;
    PageJson thresholds = PageJson::array();
    for (const SqnrStep& step : kSqnrSteps)
      thresholds.push_back(
          {{"value", step.below}, {"bgColor", step.back}, {"textColor", step.text}});
    return {{"graph", {{"results", results}, {"thresholds", thresholds}}}};
  }
  return {{"graph", {{"results", by_status(nodes)}}}};
}

}  // namespace octet
