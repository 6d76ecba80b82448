// Differential test: in compat mode the annotations equal torchao's for the golden cases. Reads the
// folder in OCTET_GOLDEN_DIR (tests/oracle makes it); skipped if unset.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "annotate/annotation/annotation.h"
#include "annotate/annotation/sharing.h"
#include "core/passes/fold_conv_bn.h"
#include "core/passes/rewrites.h"
#include "core/pt2/reader.h"
#include "quantizers/golden/golden_quantizer.h"
#include "quantizers/json/declared_rules.h"
#include "quantizers/registry.h"
#include "support/golden.h"
#include "support/rule_quantizer.h"

namespace octet::test_golden_annotations {
namespace {

using Json = nlohmann::ordered_json;
using Names = std::map<std::string, std::string>;  // torchao's node -> our value

Json read_json(const std::filesystem::path& path) {
  std::ifstream stream(path);
  return Json::parse(stream);
}

// "%name" strings of an argument, nested ones included, each once, in order.
void collect_names(const Json& argument, std::vector<std::string>& names) {
  if (argument.is_string()) {
    const std::string text = argument;
    if (text.starts_with("%") && std::find(names.begin(), names.end(), text) == names.end())
      names.push_back(text);
  } else if (argument.is_structured()) {
    for (const Json& item : argument) collect_names(item, names);
  }
}

std::string without_torch(const std::string& name) {
  return name.starts_with("torch.") ? name.substr(6) : name;
}

// An edge or a node as in torchao's specs.
std::string key_text(const Json& key, const Names& names) {
  const auto known = [&](const std::string& name) {
    return names.contains(name) ? names.at(name) : "?" + name;
  };
  if (key.contains("node")) return known(key.at("node"));
  return fmt::format("{} -> {}", known(key.at("edge").at(0)), known(key.at("edge").at(1)));
}

// A fake-quant of torchao's configurations has a moving average inside.
std::string observer_text(const Json& observer) {
  return observer.at("cls") == "FakeQuantize" ? "fake_quantize"
                                              : *test::find_observer_name(observer.at("cls"));
}

// torchao's spec in the words of to_text(SpecVariant).
std::string spec_text(const Json& spec, const Names& names) {
  const std::string kind = spec.at("kind");
  if (kind == "shared") return "same as " + key_text(spec.at("with"), names);
  if (kind == "derived") {
    std::string text = spec.at("fn") == "sum_scale" ? "derived (sum_of_scales) from "
                                                    : "derived (product_of_scales) from ";
    for (size_t i = 0; i < spec.at("from").size(); ++i)
      text += (i ? ", " : "") + key_text(spec.at("from").at(i), names);
    return text;
  }
  std::string text = without_torch(spec.at("dtype"));
  if (!spec.at("quant_min").is_null())
    text += fmt::format(" {}..{}", spec.at("quant_min").get<int64_t>(),
                        spec.at("quant_max").get<int64_t>());
  if (kind == "fixed")
    return fmt::format("fixed {}, {} {}", spec.at("scale").get<double>(),
                       spec.at("zero_point").get<int64_t>(), text);
  const std::string qscheme =
      spec.at("qscheme").is_null() ? std::string() : without_torch(spec.at("qscheme"));
  if (!qscheme.empty()) text += " " + qscheme;
  if (qscheme.starts_with("per_channel"))
    text += fmt::format(" axis {}", spec.at("ch_axis").get<int>());
  if (spec.at("is_dynamic")) text += " dynamic";
  return text + " " + observer_text(spec.at("observer"));
}

std::string annotation_text(const Json& annotation, const Names& names) {
  std::string text;
  for (const Json& entry : annotation.at("inputs")) {
    if (entry.at(1).is_null()) continue;
    const std::string name = entry.at(0);
    text += fmt::format("{}: {}, ", names.contains(name) ? names.at(name) : "?" + name,
                        spec_text(entry.at(1), names));
  }
  if (!annotation.at("output").is_null()) text += "=> " + spec_text(annotation.at("output"), names);
  return text;
}

std::string annotation_text(const QuantizationAnnotation& annotation) {
  std::string text;
  for (const auto& [value, spec] : annotation.input_qspec_map)
    text += fmt::format("%{}: {}, ", value->name(), to_text(spec));
  if (annotation.output_qspec) text += "=> " + to_text(*annotation.output_qspec);
  return text;
}

// Names of nodes differ for graph inputs alone; those are paired by their position among the inputs
// of the same call.
Names pair_names(const Graph& graph, const Json& nodes) {
  Names names;
  for (const Json& golden : nodes) {
    const std::string name = golden.at("name");
    const Node* node = graph.find_node(name);
    if (golden.at("op") != "call_function" || !node) continue;
    names["%" + name] = "%" + name;
    std::vector<std::string> inputs;
    collect_names(golden.at("args"), inputs);
    if (golden.contains("kwargs")) collect_names(golden.at("kwargs"), inputs);
    const std::vector<Value*> values = node->inputs();
    for (size_t i = 0; i < std::min(inputs.size(), values.size()); ++i)
      names.emplace(inputs[i], "%" + values[i]->name());
  }
  return names;
}

// In training batch norms are folded after annotation.
enum class Mode { kCalibration, kTraining };

std::vector<std::string> differences(const std::filesystem::path& folder, Quantizer& quantizer,
                                     Mode mode = Mode::kCalibration) {
  Graph graph = read_pt2(folder / "model.pt2");
  if (mode == Mode::kCalibration) fold_conv_bn(graph, {.check_users = false});
  quantizer.transform_for_annotation(graph);
  Annotations annotations;
  Report report;
  quantizer.annotate(graph, annotations, report);
  const Json golden = read_json(folder / "annotated.json");
  const Names names = pair_names(graph, golden.at("nodes"));
  std::vector<std::string> found;
  for (const Json& expected : golden.at("nodes")) {
    if (expected.at("op") != "call_function" || expected.at("target") == "_operator.getitem")
      continue;
    const Node* node = graph.find_node(expected.at("name").get<std::string>());
    if (!node) {
      found.push_back(fmt::format("{}: not in our graph", expected.at("name").get<std::string>()));
      continue;
    }
    const QuantizationAnnotation* annotation = annotations.find(node);
    const std::string got = annotation ? annotation_text(*annotation) : "";
    const std::string want =
        expected.contains("annotation") ? annotation_text(expected.at("annotation"), names) : "";
    if (got != want) found.push_back(fmt::format("{}: got {}, want {}", node->name(), got, want));
    const bool is_annotated =
        expected.contains("annotation") && expected.at("annotation").at("annotated");
    if (annotations.is_annotated(node) != is_annotated)
      found.push_back(fmt::format("{}: annotated is {}", node->name(), !is_annotated));
    const bool is_output =
        is_annotated && expected.at("annotation").value("is_output_of_quantized_pattern", false);
    if (annotation && annotation->is_output_of_quantized_pattern != is_output)
      found.push_back(
          fmt::format("{}: the output of a quantized pattern is {}", node->name(), !is_output));
  }
  return found;
}

// On its own the X86 quantizer gives dynamic activations and float16 weights to linear ops alone.
bool leaves_convolutions_float(const Json& description) {
  const auto is_for_linear = [](const Json& config) {
    return config.is_object() && (config.value("is_dynamic", false) || config.contains("preset"));
  };
  if (description.value("type", "") != "x86") return false;
  bool found = description.contains("global") && is_for_linear(description.at("global"));
  for (const char* kind : {"function_type", "module_type", "module_name"})
    for (const Json& row : description.value(kind, Json::array()))
      found = found || is_for_linear(row.at(1));
  return found;
}

// False for what was only claimed: ops that a configuration leaves float, inner ops of patterns.
bool has_spec(const Annotations& annotations, const Node* node) {
  const QuantizationAnnotation* annotation = annotations.find(node);
  return annotation && (!annotation->input_qspec_map.empty() || annotation->output_qspec);
}

}  // namespace

TEST_CASE("the quantizers with compat torchao annotate the golden cases as the peer does",
          "[quantizers][golden][long]") {
  const char* root = std::getenv("OCTET_GOLDEN_DIR");
  if (!root) {
    WARN("skipped: OCTET_GOLDEN_DIR is not set");
    return;
  }
  int compared = 0;
  int equal = 0;
  for (const std::filesystem::directory_entry& entry : std::filesystem::directory_iterator(root)) {
    const std::filesystem::path folder = entry.path();
    if (!std::filesystem::exists(folder / "annotated.json")) continue;
    const Json description = read_json(folder / "case.json");
    const std::unique_ptr<Quantizer> quantizer =
        test::make_golden_quantizer(description.at("quantizer"), Compat::kTorchao);
    if (!quantizer) continue;
    const std::string name = folder.filename().string();
    const std::vector<std::string> found = differences(
        folder, *quantizer, description.at("mode") == "qat" ? Mode::kTraining : Mode::kCalibration);
    ++compared;
    equal += found.empty();
    for (const std::string& difference : found) std::cerr << name << ": " << difference << "\n";
    CHECK(found.empty());
  }
  std::cerr << fmt::format("annotations: {} of {} golden cases are equal\n", equal, compared);
  CHECK(compared > 0);
}

TEST_CASE("custom rules as declared backends annotate the golden cases as the peer does",
          "[quantizers][golden][json][long]") {
  for (const test::GoldenCase& golden : test::golden_cases("cus_")) {
    if (golden.peer_failed()) continue;
    const Json nodes = golden.json("annotated.json").at("nodes");
    const std::string json =
        test::declared_from_rules(golden.meta.at("quantizer").at("rules"), nodes);
    const std::unique_ptr<Quantizer> quantizer =
        parse_quantizer(json, golden.name() + ".json", {.compat = Compat::kTorchao});
    const std::vector<std::string> found = differences(golden.folder, *quantizer);
    for (const std::string& difference : found)
      std::cerr << golden.name() << ": " << difference << "\n";
    CHECK(found.empty());
  }
}

TEST_CASE(
    "the quantizers on their own annotate at least the matrix ops that the peer does, in every "
    "golden case",
    "[quantizers][golden][long]") {
  const char* root = std::getenv("OCTET_GOLDEN_DIR");
  if (!root) {
    WARN("skipped: OCTET_GOLDEN_DIR is not set");
    return;
  }
  using Prefixes = std::vector<std::string>;
  const auto matrix_ops = [](const std::filesystem::path& folder, Quantizer& quantizer,
                             const Prefixes& prefixes) {
    Graph graph = read_pt2(folder / "model.pt2");
    fold_conv_bn(graph);
    remove_dead(graph);
    quantizer.transform_for_annotation(graph);
    Annotations annotations;
    Report report;
    quantizer.annotate(graph, annotations, report);
    CHECK_NOTHROW(find_sharing_groups(graph, annotations));
    int count = 0;
    for (const Node* node : graph.nodes()) {
      const bool is_reported =
          std::any_of(report.entries().begin(), report.entries().end(),
                      [&](const ReportEntry& entry) { return entry.node == node->name(); });
      CHECK_FALSE((is_reported && has_spec(annotations, node)));
      const bool is_counted = std::any_of(
          prefixes.begin(), prefixes.end(),
          [&](const std::string& prefix) { return node->target().starts_with(prefix); });
      count += is_counted && has_spec(annotations, node);
    }
    return count;
  };
  for (const std::filesystem::directory_entry& entry : std::filesystem::directory_iterator(root)) {
    if (!std::filesystem::exists(entry.path() / "case.json")) continue;
    const Json description = read_json(entry.path() / "case.json");
    if (!description.at("peer_error").is_null()) continue;
    const std::unique_ptr<Quantizer> peer =
        test::make_golden_quantizer(description.at("quantizer"), Compat::kTorchao);
    const std::unique_ptr<Quantizer> own =
        test::make_golden_quantizer(description.at("quantizer"), Compat::kNone);
    // float64, which torchao annotates and cannot convert
    if (!peer || entry.path().filename() == "xnn_double_linear") continue;
    INFO(entry.path().filename().string());
    const Prefixes prefixes = leaves_convolutions_float(description.at("quantizer"))
                                  ? Prefixes{"aten.linear"}
                                  : Prefixes{"aten.linear", "aten.conv"};
    CHECK(matrix_ops(entry.path(), *own, prefixes) >= matrix_ops(entry.path(), *peer, prefixes));
  }
}

}  // namespace octet::test_golden_annotations
