// User-defined quantizers that follow the settings of files: with rules, node by node with
// configurations to choose among, and plain subclasses of Quantizer.
#include <catch2/catch.hpp>

#include <cstdio>
#include <fstream>

#include "annotate/annotation/annotation.h"
#include "annotate/prepare/prepare.h"
#include "core/base/error.h"
#include "core/text/text.h"
#include "quantizers/annotate_text.h"
#include "quantizers/common/configurable_quantizer.h"
#include "quantizers/registry.h"
#include "support/error_message.h"

namespace octet::test_own_settings {
namespace {

using test::reason_for;

// Modules a, b (twice in it: linear) and head: linear and relu.
constexpr const char* kNet =
    R"(graph(%x: f32[2,4], %w = param "a.weight": f32[4,4], %v = param "b.weight": f32[4,4], %u = param "head.fc.weight": f32[4,4]):
    %a: f32[2,4] = aten.linear.default(%x, %w)
    %b: f32[2,4] = aten.linear.default(%a, %v)
    %c: f32[2,4] = aten.linear.default(%b, %v)
    %h: f32[2,4] = aten.linear.default(%c, %u)
    %r: f32[2,4] = aten.relu.default(%h)
    return (%r))";
const test::ModuleStacks kStacks = {
    {"a", "0,,Net;1,a,torch.nn.modules.linear.Linear"},
    {"b", "0,,Net;2,b,my.Block"},
    {"c", "0,,Net;2,b,my.Block"},
    {"h", "0,,Net;3,head,my.Head;4,head.fc,torch.nn.modules.linear.Linear"},
    {"r", "0,,Net;3,head,my.Head"}};

QuantizationSpec spec_of(DType dtype) {
  QuantizationSpec spec;
  spec.dtype = dtype;
  return spec;
}

// Linear, and relu after it.
std::vector<AnnotationRule> linear_rules() {
  const QuantizationSpec act = spec_of(DType::kInt8);
  return {{"linear_relu", "relu(linear(x, w, b?))", {{"x", act}}, act},
          {"linear", "linear(x, w, b?)", {{"x", act}}, act}};
}

// By rules.
class ByRules : public ConfigurableQuantizer {
 public:
  ByRules() : ConfigurableQuantizer("own_by_rules") {}
  void annotate(Graph& graph, Annotations& annotations, Report& report) override {
    RuleState state;
    annotate_by_rules(graph, linear_rules(), by_settings(), annotations, state);
    report_float_ops(graph, annotations, state, report);
  }
};

// The results of linear ops, node by node, of one of two dtypes.
class ByNode : public ConfigurableQuantizer {
 public:
  ByNode() : ConfigurableQuantizer("own_by_node", {config("int8"), config("int16")}) {}
  void annotate(Graph& graph, Annotations& annotations, Report& report) override {
    for (Node* node : graph.nodes_of("aten.linear.default")) {
      if (annotations.is_annotated(node)) continue;
      const ConfigTable::Choice choice = config_of(*node);
      if (!choice.config) {
        report.add(
            {"annotate", node->name(), node->target(), innermost_module(*node), choice.reason});
        continue;
      }
      QuantizationAnnotation annotation;
      annotation.rule = "linear";
      annotation.output_qspec = *choice.config->output_activation;
      annotations[node] = annotation;
    }
  }

 private:
  static QuantizationConfig config(const std::string& name) {
    QuantizationConfig result;
    result.output_activation = spec_of(name == "int8" ? DType::kInt8 : DType::kInt16);
    result.dtype_config = name;
    return result;
  }
};

// A plain subclass of Quantizer: as ByRules, and asks no settings.
class Plain : public Quantizer {
 public:
  std::string name() const override { return "own_plain"; }
  void annotate(Graph& graph, Annotations& annotations, Report& report) override {
    RuleState state;
    static const QuantizationConfig config;
    annotate_by_rules(
        graph, linear_rules(),
        [](const AnnotationRule&, const Match&) { return ConfigChoice{&config, {}}; }, annotations,
        state);
    for (const Node* node : graph.nodes())
      if (!annotations.find(node) || annotations.find(node)->input_qspec_map.empty())
        report.add({"annotate", node->name(), node->target(), "", "not plain"});
  }
};

// Annotates every op that it finds.
class Greedy : public Quantizer {
 public:
  std::string name() const override { return "own_greedy"; }
  void annotate(Graph& graph, Annotations& annotations, Report&) override {
    for (Node* node : graph.nodes()) {
      annotations[node].rule = "greedy";
      annotations[node].output_qspec = spec_of(DType::kInt8);
    }
  }
};

template <typename Kind>
void register_as(const char* name) {
  register_quantizer(name, [](const QuantizerOptions&) { return std::make_unique<Kind>(); });
}

void register_all() {
  static bool done = false;
  if (std::exchange(done, true)) return;
  register_as<ByRules>("own_by_rules");
  register_as<ByNode>("own_by_node");
  register_as<Plain>("own_plain");
  register_as<Greedy>("own_greedy");
}

struct Prepared {
  std::string dtypes;  // "a: int8, b: int16": of the linear ops that are annotated
  std::string rules;   // "a: linear, h: linear_relu"
  Report report;
};

Prepared prepare_with(Quantizer& quantizer) {
  Graph graph = parse_graph(kNet);
  for (const auto& [name, stack] : kStacks)
    graph.find_node(name)->metadata["nn_module_stack"] = stack;
  Prepared result;
  const ObservedGraph observed = prepare_pt2e(std::move(graph), quantizer, result.report);
  for (const char* name : {"a", "b", "c", "h", "r"}) {
    const QuantizationAnnotation* annotation =
        observed.annotations.find(observed.graph.find_node(name));
    if (!annotation) continue;
    const char* comma = result.rules.empty() ? "" : ", ";
    result.rules += comma + std::string(name) + ": " + annotation->rule;
    if (!annotation->output_qspec) continue;
    comma = result.dtypes.empty() ? "" : ", ";
    result.dtypes +=
        comma + std::string(name) + ": " +
        std::string(name_of(std::get<QuantizationSpec>(*annotation->output_qspec).dtype));
  }
  return result;
}

Prepared prepare_json(const std::string& json) {
  register_all();
  return prepare_with(*parse_quantizer(json, "f.json"));
}

// The result of the quantizer that asks the settings; one that does not is kept out of the same
// ops.
std::string rules_with(const std::string& settings) {
  const std::string rules = prepare_json(R"({"base": "own_by_rules", )" + settings + "}").rules;
  CHECK(prepare_json(R"({"base": "own_plain", )" + settings + "}").rules == rules);
  return rules;
}

std::string dtypes_with(const std::string& settings) {
  return prepare_json(R"({"base": "own_by_node", )" + settings + "}").dtypes;
}

std::string message_of(const std::string& json) {
  return test::error_message([&] { prepare_json(json); });
}

constexpr const char* kAllRules = "a: linear, b: linear, c: linear, h: linear_relu, r: linear_relu";

}  // namespace

TEST_CASE("a user-defined quantizer quantizes everything without settings",
          "[quantizers][settings]") {
  register_all();
  CHECK(prepare_with(*make_quantizer("own_by_rules")).rules == kAllRules);
  CHECK(prepare_with(*make_quantizer("own_by_node")).dtypes ==
        "a: int8, b: int8, c: int8, h: int8");
}

TEST_CASE("each kind of row keeps a user-defined quantizer out of what it covers",
          "[quantizers][settings]") {
  CHECK(rules_with(R"("global": null)").empty());
  CHECK(rules_with(R"("global": {})") == kAllRules);
  CHECK(rules_with(R"("op_type": {"aten.linear.default": null})").empty());
  CHECK(rules_with(R"("op_type": {"relu": null})") == "a: linear, b: linear, c: linear, h: linear");
  CHECK(rules_with(R"("module_type": {"torch.nn.Linear": null})") == "b: linear, c: linear");
  CHECK(rules_with(R"("module_name": {"head": null})") == "a: linear, b: linear, c: linear");
  CHECK(rules_with(R"("module_name_regex": {"[ab]": null})") == "h: linear_relu, r: linear_relu");
  CHECK(rules_with(R"("call_index": {"b": {"aten.linear.default": {"1": null}}})") ==
        "a: linear, b: linear, h: linear_relu, r: linear_relu");
}

TEST_CASE("settings by module that split a pattern leave a shorter one", "[quantizers][settings]") {
  CHECK(rules_with(R"("global": null, "module_type": {"torch.nn.Linear": {}})") ==
        "a: linear, h: linear");
  CHECK(rules_with(R"("module_name": {"head.fc": null})") == "a: linear, b: linear, c: linear");
}

TEST_CASE("the rows of a user-defined quantizer have the precedence of all settings",
          "[quantizers][settings]") {
  CHECK(rules_with(R"("global": null, "module_name": {"head": {}, "b": {}},
                      "call_index": {"b": {"linear": {"0": null}}})") ==
        "c: linear, h: linear_relu, r: linear_relu");
}

TEST_CASE("ops that settings keep from a user-defined quantizer have the row as their reason",
          "[quantizers][settings]") {
  const Prepared prepared =
      prepare_json(R"({"base": "own_by_rules", "module_name": {"head": null}})");
  CHECK(reason_for(prepared.report, "h") == "excluded by module_name \"head\"");
  CHECK(reason_for(prepared.report, "r") == "excluded by module_name \"head\"");
}

TEST_CASE("the reason of a setting replaces the quantizer's reason for a float op",
          "[quantizers][settings]") {
  const Prepared prepared = prepare_json(R"({"base": "own_plain", "module_name": {"b": null}})");
  CHECK(reason_for(prepared.report, "b") == "excluded by module_name \"b\"");
  CHECK(reason_for(prepared.report, "r") == "not plain");
  CHECK(prepare_json(R"({"base": "own_greedy", "module_name": {"head": null}})").rules ==
        "a: greedy, b: greedy, c: greedy");
}

TEST_CASE("a plain quantizer has settings in code", "[quantizers][settings]") {
  const std::unique_ptr<ConfigurableQuantizer> quantizer = with_settings(std::make_unique<Plain>());
  CHECK(quantizer->name() == "own_plain");
  CHECK(prepare_with(*quantizer).rules == kAllRules);
  quantizer->set_row({RowKind::kModuleName, "head"}, std::nullopt);
  CHECK(prepare_with(*quantizer).rules == "a: linear, b: linear, c: linear");
}

TEST_CASE("settings choose among the configurations of a user-defined quantizer",
          "[quantizers][settings]") {
  CHECK(dtypes_with(R"("module_name": {"b": {"dtype_config": "int16"}, "head": null})") ==
        "a: int8, b: int16, c: int16");
  CHECK(dtypes_with(R"("global": {"dtype_config": "int16"}, "module_type": {"my.Head": {}})") ==
        "a: int16, b: int16, c: int16, h: int8");
  CHECK(dtypes_with(R"("call_index": {"b": {"linear": {"1": {"dtype_config": "int16"}}}})") ==
        "a: int8, b: int8, c: int16, h: int8");
}

TEST_CASE("settings of a composition and of --config reach a user-defined quantizer",
          "[quantizers][settings]") {
  CHECK(prepare_json(R"({"compose": ["own_by_rules", "own_plain"]})")
            .rules.starts_with("a: own_by_rules: linear, "));
  CHECK(prepare_json(R"({"compose": ["own_by_rules", "embedding"], "module_name": {"head": null}})")
            .rules == "a: own_by_rules: linear, b: own_by_rules: linear, c: own_by_rules: linear");
  const std::string path = std::string(OCTET_BINARY_DIR) + "/own_settings.json";
  std::ofstream(path) << R"({"module_name": {"head": null}})";
  QuantizerOptions options;
  options.config = path;
  CHECK(prepare_with(*make_quantizer("own_by_rules", options)).rules ==
        "a: linear, b: linear, c: linear");
  std::remove(path.c_str());
}

TEST_CASE("settings in code are those of files", "[quantizers][settings]") {
  ByNode quantizer;
  quantizer.set_row({}, std::nullopt);
  quantizer.set_row({RowKind::kModuleName, "head"}, quantizer.configs().back());
  CHECK(prepare_with(quantizer).dtypes == "h: int16");
}

TEST_CASE("faults of settings for a user-defined quantizer are errors with their place",
          "[quantizers][settings]") {
  const auto check = [](const std::string& base, const std::string& settings,
                        const std::string& message) {
    CHECK(message_of(R"({"base": ")" + base + R"(", )" + settings + "}") ==
          "quantizer: f.json: /" + message);
  };
  check("own_by_rules", R"("module_name": {"haed": null})",
        "module_name/haed: module_name \"haed\" is not a module of the model, the closest: head, "
        "head.fc, a");
  check("own_by_rules", R"("call_index": {"b": {"linear": {"2": null}}})",
        "call_index/b/linear/2: call_index 2 of linear in module \"b\": the module calls the op 2 "
        "times, want an index of 0 .. 1");
  check("own_by_rules", R"("module_name_regex": {"(": null})",
        "module_name_regex/(: module_name_regex \"(\": not a regular expression (ECMAScript): a ( "
        "or ) is unmatched, or a * + ? { repeats nothing");
  check("own_by_rules", R"("global": {"weight_bits": 4})",
        "global/weight_bits: unknown key, want one of dtype_config");
  check("own_by_rules", R"("global": {"dtype_config": "int8"})",
        "global/dtype_config: the quantizer lists no dtype_configs to choose among; leave it out");
  check("own_by_node", R"("module_name": {"b": {"dtype_config": "int4"}})",
        "module_name/b/dtype_config: got \"int4\", want one of int8, int16");
  check("own_by_node", R"("module_name": {"b": true})",
        "module_name/b: got true, want an object of options, or null to leave it float");
  check(
      "own_plain", R"("module_type": {"my.Hed": null})",
      "module_type/my.Hed: module_type \"my.Hed\" is not the type of any module of the model, the "
      "closest: my.Head, my.Block, torch.nn.modules.linear.Linear");
  check("own_plain", R"("global": {"dtype_config": "int8"})",
        "global/dtype_config: the quantizer lists no dtype_configs to choose among; leave it out");
}

}  // namespace octet::test_own_settings
