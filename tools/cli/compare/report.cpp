#include "tools/cli/compare/report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include "annotate/compare/diagnosis.h"
#include "annotate/graph/constant_subgraph.h"
#include "annotate/graph/float_ops.h"
#include "core/base/dtype.h"
#include "tools/cli/common/graph_nodes.h"
#include "tools/cli/compare/suggestion.h"

namespace octet {
namespace {

using Json = nlohmann::ordered_json;

// JSON has no infinities, so they become strings.
Json number_json(double value) {
  if (std::isnan(value)) return nullptr;
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

Json errors_json(const ErrorStats& stats, double step) {
  if (!stats.has_data()) return nullptr;
  Json json = {{"sqnr_db", number_json(stats.sqnr_db())},
               {"mse", number_json(stats.mse())},
               {"cosine", number_json(stats.cosine())},
               {"max_abs", number_json(stats.largest)}};
  json["max_steps"] = step > 0 ? number_json(stats.largest / step) : Json(nullptr);
  return json;
}

// The nodes of the program; marks the ops that compute in float.
Json compared_nodes(const Graph& graph) {
  std::unordered_set<std::string> in_float;
  for (const Node* node : find_float_ops(graph)) in_float.insert(node->name());
  const std::unordered_set<const Value*> constants = find_constant_values(graph);
  Json nodes = graph_nodes(graph);
  for (Json& json : nodes) {
    if (json.at("status") != "other") continue;
    const std::string name = json.at("name").get<std::string>();
    const Node* node = graph.find_node(name);
    const std::vector<Value*> outputs = node->outputs();
    const bool is_constant = !outputs.empty() && constants.contains(outputs.front());
    if (!is_constant && computes_on_floats(*node))
      json["status"] = in_float.contains(name) ? "float" : "quantized";
  }
  return nodes;
}

Json rounding_json(const OpComparison& op) {
  Json json = {{"dtype", short_name_of(op.rounding->dtype)},
               {"scale", op.rounding->scale},
               {"zero_point", op.rounding->zero_point},
               {"range", {op.rounding->least(), op.rounding->greatest()}},
               {"clipped_share", op.clipped_share}};
  if (!op.histogram.counts.empty())
    json["histogram"] = {{"min", op.histogram.least},
                         {"max", op.histogram.greatest},
                         {"counts", op.histogram.counts}};
  return json;
}

// As number_json, but NaN is "nan": null is a number that is not known.
Json sample_json(double value) { return std::isnan(value) ? Json("nan") : number_json(value); }

Json samples_json(const std::vector<ValueSample>& samples) {
  Json indices = Json::array(), reference = Json::array(), subject = Json::array();
  for (const ValueSample& sample : samples) {
    indices.push_back(sample.index);
    reference.push_back(sample_json(sample.reference));
    subject.push_back(sample_json(sample.subject));
  }
  return {{"index", std::move(indices)},
          {"float", std::move(reference)},
          {"quantized", std::move(subject)}};
}

Json weight_json(const WeightComparison& weight) {
  Json ratios = Json::array();
  for (double ratio : weight.sqnr_db) ratios.push_back(number_json(ratio));
  return {{"axis", weight.axis},
          {"error", errors_json(weight.error, 0)},
          {"min", weight.least},
          {"max", weight.greatest},
          {"sqnr_db", std::move(ratios)}};
}

void fill_op(Json& node, const OpComparison& op, const WeightComparison* weights,
             const Graph& subject) {
  const double step = op.rounding ? op.rounding->scale : 0;
  node["members"] = op.members;
  node["errors"]["accumulated"] = errors_json(op.accumulated, step);
  node["errors"]["isolated"] = errors_json(op.isolated, step);
  if (op.metric) node["errors"]["accumulated"]["metric"] = number_json(*op.metric);
  const Diagnosis diagnosis = diagnose(op, weights);
  node["cause"] = name_of(diagnosis.cause);
  node["explanation"] = diagnosis.explanation;
  if (op.rounding) node["output"] = rounding_json(op);
  if (!op.samples.empty()) node["samples"] = samples_json(op.samples);
  const Value* value = subject.find_value(op.name);
  if (value != nullptr) node["suggestion"] = suggest(subject, *value, diagnosis.cause);
}

// Lists a lowered op at the node with its name, together with the nodes fused into it.
void fill_lowered(Json& nodes, const LoweredComparison& lowered, bool has_nodes) {
  std::unordered_map<std::string, size_t> places;
  for (size_t i = 0; i < nodes.size(); ++i) places[nodes[i].at("name").get<std::string>()] = i;
  for (const LoweredOp& op : lowered.ops) {
    if (!op.error.has_data()) continue;
    auto place = places.find(op.name);
    for (size_t i = 0; i < op.sources.size() && place == places.end(); ++i)
      place = places.find(op.sources[i]);
    if (place == places.end()) {
      if (has_nodes && op.error.relative() == 0) continue;  // a lone quantize, for example
      place = places.emplace(op.name, nodes.size()).first;
      nodes.push_back(
          {{"name", op.name}, {"target", op.kind}, {"module", op.module}, {"status", "other"}});
    }
    Json& node = nodes[place->second];
    const Json own = errors_json(op.error, op.is_integer ? 1 : 0);
    Json& known = node["errors"]["lowering"];
    const bool is_worse = known.is_null() || known.at("mse").get<double>() < op.error.mse();
    if (is_worse) known = own;
    node["backend"] = op.backend;
    if (op.seconds > 0) node["latency_us"] = 1e6 * op.seconds;
    node["fused"] = op.sources;
  }
}

// Whether the op is in a body: only such ops have a path as their name.
bool is_in_body(const OpComparison& op) { return op.name.find('/') != std::string::npos; }

Json body_node(const OpComparison& op) {
  return {{"name", op.name},
          {"target", op.target},
          {"module", op.module},
          {"module_type", op.module_type},
          {"status", op.rounding ? "quantized" : "float"}};
}

// The number at a JSON pointer; NaN if there is none.
double figure_at(const Json& node, const std::string& pointer) {
  const Json::json_pointer place(pointer);
  const Json value = node.contains(place) ? node.at(place) : Json();
  if (value.is_string()) return value == "inf" ? HUGE_VAL : -HUGE_VAL;
  return value.is_null() ? std::nan("") : value.get<double>();
}

double decibels_of(const Json& node, const char* kind) {
  return figure_at(node, fmt::format("/errors/{}/sqnr_db", kind));
}

// The metric of the op's tensor; NaN if there is none.
double metric_of(const Json& node) { return figure_at(node, "/errors/accumulated/metric"); }

double least_of(double a, double b) { return std::isnan(a) || b < a ? b : a; }

// Sorts nodes by the error that an op adds, in the graph or on the backend, largest first.
void rank_nodes(Json& nodes) {
  std::vector<std::tuple<double, double, size_t>> order;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const double own =
        least_of(decibels_of(nodes[i], "isolated"), decibels_of(nodes[i], "lowering"));
    const double whole = decibels_of(nodes[i], "accumulated");
    if (std::isnan(own) && std::isnan(whole)) continue;
    order.emplace_back(std::isnan(own) ? HUGE_VAL : own, std::isnan(whole) ? HUGE_VAL : whole, i);
  }
  std::ranges::sort(order);
  for (size_t i = 0; i < order.size(); ++i) nodes[std::get<2>(order[i])]["rank"] = i + 1;
}

// Blames a backend's op whose error exceeds the one step by which its rounding may differ.
void blame_lowering(Json& node) {
  constexpr double kCloseDb = 60, kOneStep = 1.001;
  const double lowering = decibels_of(node, "lowering");
  if (std::isnan(lowering) || lowering >= kCloseDb) return;
  const Json& steps = node.at("errors").at("lowering").at("max_steps");
  if (steps.is_number() && steps.get<double>() <= kOneStep) return;
  node["cause"] = "lowering";
  const Json& error = node.at("errors").at("lowering");
  node["explanation"] = fmt::format(
      "{} computes something other than the q/dq op: {} off at most", node.value("backend", ""),
      error.at("max_steps").is_null()
          ? fmt::format("{:.3g}", error.at("max_abs").get<double>())
          : fmt::format("{:.0f} steps", error.at("max_steps").get<double>()));
  node["suggestion"] = nullptr;
}

std::string cell(double value) {
  if (std::isnan(value)) return "";
  if (std::isinf(value)) return value > 0 ? "equal" : "-inf";
  return fmt::format("{:.1f}", value);
}

std::string text_of(const Json& node, const char* key) {
  return node.contains(key) && node.at(key).is_string() ? node.at(key).get<std::string>() : "";
}

std::vector<const Json*> by_rank(const Json& json) {
  std::vector<const Json*> nodes;
  for (const Json& node : json.at("nodes"))
    if (node.contains("rank")) nodes.push_back(&node);
  std::ranges::sort(nodes, [](const Json* a, const Json* b) {
    return a->at("rank").get<size_t>() < b->at("rank").get<size_t>();
  });
  return nodes;
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string out = "\"";
  for (char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

}  // namespace

Json compare_json(const ComparisonReport& report) {
  Json summary = Json::array(), notes = Json::array();
  const auto ratio_text = [](const ErrorStats& stats) {
    const double ratio = stats.sqnr_db();
    return std::isinf(ratio) && ratio > 0 ? std::string("equal") : fmt::format("{:.1f} dB", ratio);
  };
  if (report.subject != nullptr) {
    summary.push_back({"outputs", ratio_text(report.comparison.outputs)});
    summary.push_back({"batches", std::to_string(report.comparison.batches)});
    summary.push_back({"ops", std::to_string(report.comparison.ops.size())});
  }
  if (report.comparison.metric)
    summary.push_back({report.metric, fmt::format("{:.6g}", *report.comparison.metric)});
  if (report.lowered) summary.push_back({"lowered outputs", ratio_text(report.lowered->outputs)});
  for (const std::string& name : report.comparison.lonely)
    notes.push_back(fmt::format("%{} has no counterpart in the reference", name));
  Json nodes = report.subject == nullptr ? Json::array() : compared_nodes(*report.subject);
  std::map<std::string, const WeightComparison*> weights;
  for (const auto* some : {&report.weights, &report.comparison.body_weights})
    for (const WeightComparison& weight : *some) weights[weight.name] = &weight;
  std::unordered_map<std::string, size_t> places;
  for (size_t i = 0; i < nodes.size(); ++i) places[nodes[i].at("name").get<std::string>()] = i;
  for (const OpComparison& op : report.comparison.ops) {
    auto place = places.find(op.name);
    if (place == places.end() && is_in_body(op)) {
      place = places.emplace(op.name, nodes.size()).first;
      nodes.push_back(body_node(op));
    }
    if (place == places.end()) continue;
    const auto own = weights.find(op.name);
    fill_op(nodes[place->second], op, own == weights.end() ? nullptr : own->second,
            *report.subject);
  }
  for (const auto& [name, weight] : weights)
    if (const auto place = places.find(name); place != places.end())
      nodes[place->second]["weight"] = weight_json(*weight);
  if (report.lowered) {
    fill_lowered(nodes, *report.lowered, report.subject != nullptr);
    for (Json& node : nodes) blame_lowering(node);
  }
  rank_nodes(nodes);
  Json json = {{"kind", "compare"},           {"title", report.title},
               {"subtitle", report.subtitle}, {"summary", std::move(summary)},
               {"notes", std::move(notes)},   {"nodes", std::move(nodes)}};
  if (report.subject != nullptr)
    json["output_sqnr_db"] = number_json(report.comparison.outputs.sqnr_db());
  else if (report.lowered)
    json["output_sqnr_db"] = number_json(report.lowered->outputs.sqnr_db());
  if (!report.metric.empty()) json["metric"] = report.metric;
  return json;
}

std::string compare_csv(const Json& json) {
  const bool has_metric = json.contains("metric");
  std::string text = fmt::format(
      "rank,name,target,module,accumulated_db,isolated_db,lowering_db,{}cause,explanation\n",
      has_metric ? "metric," : "");
  const auto ratio = [](double value) {
    return std::isnan(value) ? std::string() : fmt::format("{}", value);
  };
  for (const Json* node : by_rank(json))
    text +=
        fmt::format("{},{},{},{},{},{},{},{}{},{}\n", node->at("rank").get<size_t>(),
                    csv_field(text_of(*node, "name")), csv_field(text_of(*node, "target")),
                    csv_field(text_of(*node, "module")), ratio(decibels_of(*node, "accumulated")),
                    ratio(decibels_of(*node, "isolated")), ratio(decibels_of(*node, "lowering")),
                    has_metric ? ratio(metric_of(*node)) + "," : "", text_of(*node, "cause"),
                    csv_field(text_of(*node, "explanation")));
  return text;
}

std::vector<std::string> compare_table(const Json& json, size_t count) {
  std::vector<const Json*> nodes = by_rank(json);
  const size_t all = nodes.size();
  nodes.resize(std::min(count, all));
  size_t width = 4;
  for (const Json* node : nodes) width = std::max(width, text_of(*node, "name").size());
  const bool has_lowering = std::ranges::any_of(
      nodes, [](const Json* node) { return !std::isnan(decibels_of(*node, "lowering")); });
  std::vector<std::string> lines;
  for (const Json& row : json.at("summary"))
    lines.push_back(
        fmt::format("{:<16}{}", row.at(0).get<std::string>(), row.at(1).get<std::string>()));
  const std::string metric = text_of(json, "metric");
  const size_t metric_width = std::max<size_t>(8, metric.size());
  lines.push_back(fmt::format("{:<{}}  {:>11}  {:>8}{}{}  cause (SQNR in dB, worst first)", "op",
                              width, "accumulated", "isolated", has_lowering ? "  lowering" : "",
                              metric.empty() ? "" : fmt::format("  {:>{}}", metric, metric_width)));
  for (const Json* node : nodes) {
    std::string line =
        fmt::format("{:<{}}  {:>11}  {:>8}", text_of(*node, "name"), width,
                    cell(decibels_of(*node, "accumulated")), cell(decibels_of(*node, "isolated")));
    if (has_lowering) line += fmt::format("  {:>8}", cell(decibels_of(*node, "lowering")));
    if (!metric.empty()) {
      const double value = metric_of(*node);
      line += fmt::format("  {:>{}}", std::isnan(value) ? "" : fmt::format("{:.5g}", value),
                          metric_width);
    }
    const std::string cause = text_of(*node, "cause"), why = text_of(*node, "explanation");
    line += fmt::format("  {}{}{}", cause, why.empty() ? "" : ": ", why);
    lines.push_back(line);
  }
  if (all > nodes.size()) lines.push_back(fmt::format("... and {} more", all - nodes.size()));
  for (const Json* node : nodes) {
    const auto suggestion = node->find("suggestion");
    if (suggestion == node->end() || suggestion->is_null()) continue;
    lines.push_back(
        fmt::format("to try for {}: --config with {}", text_of(*node, "name"), suggestion->dump()));
    break;
  }
  return lines;
}

}  // namespace octet
