// Parts of a program that quantizers leave alone, given in JSON.
#include <catch2/catch.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "annotate/annotation/annotation.h"
#include "annotate/graph/opaque_parts.h"
#include "annotate/prepare/prepare.h"
#include "core/base/error.h"
#include "core/text/text.h"
#include "quantizers/annotate_text.h"
#include "quantizers/registry.h"
#include "support/error_message.h"

namespace octet::test_opaque {
namespace {

using test::reason_for;

// a: linear; head: linear and relu; out: linear.
constexpr const char* kNet =
    R"(graph(%x: f32[2,4], %w = param "a.weight": f32[4,4], %v = param "head.fc.weight": f32[4,4], %u = param "out.weight": f32[4,4]):
    %a: f32[2,4] = aten.linear.default(%x, %w)
    %b: f32[2,4] = aten.linear.default(%a, %v)
    %r: f32[2,4] = aten.relu.default(%b)
    %d: f32[2,4] = aten.linear.default(%r, %u)
    return (%d))";
const test::ModuleStacks kStacks = {
    {"a", "0,,Net;1,a,torch.nn.modules.linear.Linear"},
    {"b", "0,,Net;1,head,my.Head;2,head.fc,torch.nn.modules.linear.Linear"},
    {"r", "0,,Net;1,head,my.Head"},
    {"d", "0,,Net;1,out,torch.nn.modules.linear.Linear"}};

struct Prepared {
  ObservedGraph observed;
  Report report;
  std::string text;  // the annotations, with the common specs in short
};

Prepared prepare(const std::string& json, const char* net = kNet,
                 const test::ModuleStacks& stacks = kStacks, bool compat = false) {
  Graph graph = parse_graph(net);
  for (const auto& [name, stack] : stacks)
    graph.find_node(name)->metadata["nn_module_stack"] = stack;
  QuantizerOptions options;
  options.compat = compat ? Compat::kTorchao : Compat::kNone;
  const std::unique_ptr<Quantizer> quantizer = parse_quantizer(json, "f.json", options);
  PrepareOptions prepare_options;
  prepare_options.compat = compat ? Compat::kTorchao : Compat::kNone;
  Report report;
  Prepared result{prepare_pt2e(std::move(graph), *quantizer, report, prepare_options), {}, {}};
  result.report = std::move(report);
  result.text = to_text(result.observed.graph, result.observed.annotations);
  test::replace_all(result.text, "int8 -128..127 per_tensor_affine histogram", "ACT");
  test::replace_all(result.text, "uint8 0..255 per_tensor_affine histogram", "ACT8U");
  return result;
}

std::string message_of(const std::string& json) {
  return test::error_message([&] { prepare(json); });
}

std::string with_opaque(const std::string& parts, const std::string& base = "xnnpack") {
  return R"({"base": ")" + base + R"(", "global": {}, "opaque": )" + parts + "}";
}

const QuantizationAnnotation* find(const Prepared& prepared, const char* node) {
  return prepared.observed.annotations.find(prepared.observed.graph.find_node(node));
}

bool has_specs(const Prepared& prepared, const char* node) {
  const QuantizationAnnotation* annotation = find(prepared, node);
  return annotation != nullptr &&
         (!annotation->input_qspec_map.empty() || annotation->output_qspec);
}

std::string names(const std::vector<Value*>& values) {
  std::string text;
  for (const Value* value : values) text += (text.empty() ? "" : " ") + value->name();
  return text;
}

TEST_CASE("an opaque module stays float as a whole, with a reason for each op in it",
          "[quantizers][opaque]") {
  for (const char* base : {"xnnpack", "x86"})
    for (const bool compat : {false, true}) {
      CAPTURE(base, compat);
      const Prepared prepared =
          prepare(with_opaque(R"([{"module": "head"}])", base), kNet, kStacks, compat);
      CHECK_FALSE(has_specs(prepared, "b"));
      CHECK_FALSE(has_specs(prepared, "r"));
      CHECK(has_specs(prepared, "a"));
      CHECK(has_specs(prepared, "d"));
      CHECK(reason_for(prepared.report, "b") == "in the opaque part module \"head\"");
      CHECK(reason_for(prepared.report, "r") == "in the opaque part module \"head\"");
      CHECK(prepared.observed.graph.find_node("b")->target() == "aten.linear.default");
    }
}

TEST_CASE("no pattern reaches over the border of an opaque part", "[quantizers][opaque]") {
  const Prepared prepared = prepare(with_opaque(R"([{"op": "relu"}])"));
  CHECK(find(prepared, "b")->rule == "linear");  // not linear_relu
  CHECK(find(prepared, "r")->rule == "opaque part op relu");
  CHECK_FALSE(has_specs(prepared, "r"));
}

TEST_CASE("a note tells the border of an opaque part", "[quantizers][opaque]") {
  const Prepared prepared = prepare(with_opaque(R"([{"module": "head"}, {"op": "aten.sigmoid"}])"));
  const std::vector<std::string> notes = prepared.report.notes();
  CHECK(std::find(notes.begin(), notes.end(),
                  "opaque part module \"head\": 2 ops; input 0 %a; output 0 %r") != notes.end());
  CHECK(std::find(notes.begin(), notes.end(), "opaque part op aten.sigmoid covers no op") !=
        notes.end());
}

TEST_CASE("a batch norm in an opaque part is not folded into the convolution before it",
          "[quantizers][opaque]") {
  const char* net =
      R"(graph(%w = param "c.weight": f32[2,3,3,3], %m = buffer "n.mean": f32[2], %v = buffer "n.var": f32[2], %x: f32[1,3,8,8]):
    %c: f32[1,2,6,6] = aten.conv2d.default(%x, %w)
    %n: f32[1,2,6,6] = aten.batch_norm.default(%c, None, None, %m, %v, False, 0.1, 1e-05, True)
    return (%n))";
  CHECK(prepare(R"({"base": "xnnpack", "global": {}})", net, {}).observed.graph.find_node("n") ==
        nullptr);
  CHECK(prepare(with_opaque(R"([{"op": "aten.batch_norm"}])"), net, {})
            .observed.graph.find_node("n") != nullptr);
}

TEST_CASE("inputs and outputs of an opaque part are quantized by index", "[quantizers][opaque]") {
  const char* act =
      R"({"dtype": "int8", "qscheme": "per_tensor_affine", "quant_min": -128, "quant_max": 127, "observer": "histogram"})";
  const Prepared prepared = prepare(with_opaque(
      std::string(R"([{"module": "head", "quantized_inputs": {"0": )") + act +
      R"(}, "quantized_outputs": {"0": {"fixed": {"scale": 0.5, "zero_point": 0}, "dtype": "int8"}}}])"));
  CHECK(to_text(SpecVariant(*find(prepared, "r")->output_qspec)) == "fixed 0.5, 0 int8");
  CHECK(find(prepared, "r")->input_qspec_map.empty());
  CHECK(find(prepared, "b")->input_qspec_map.size() == 1);  // its weight stays float
  CHECK_FALSE(find(prepared, "b")->output_qspec);
}

TEST_CASE(
    "an output of an opaque part may share the observer of an input, and sharing continues after "
    "it",
    "[quantizers][opaque]") {
  const char* net = R"(graph(%w = param "w": f32[4,4], %x: f32[1,4]):
    %a: f32[1,4] = aten.linear.default(%x, %w)
    %g: f32[1,4] = aten.sigmoid.default(%a)
    %v: f32[4] = aten.view.default(%g, [4])
    return (%v))";
  const char* act =
      R"({"dtype": "int8", "qscheme": "per_tensor_affine", "quant_min": -128, "quant_max": 127, "observer": "histogram"})";
  const Prepared prepared =
      prepare(with_opaque(std::string(R"([{"op": "sigmoid", "quantized_inputs": {"0": )") + act +
                          R"(}, "quantized_outputs": {"0": {"same_as": {"input": 0}}}}])"),
              net, {});
  CHECK(to_text(*find(prepared, "g")->output_qspec) == "same as %a -> %g");
  CHECK(find(prepared, "v")->rule == "share");
  CHECK(group_of(*prepared.observed.graph.find_value("g")->users().front()) ==
        group_of(*prepared.observed.graph.find_value("a")->users().front()));
}

TEST_CASE("a standalone part has its own quantizer, and its border stays float",
          "[quantizers][opaque]") {
  const Prepared prepared = prepare(with_opaque(R"([{"module": "head", "quantizer": "x86"}])"));
  CHECK(find(prepared, "b")->rule.starts_with("x86: "));
  const SpecVariant* inside =
      find(prepared, "b")->find_input(prepared.observed.graph.find_value("a"));
  REQUIRE(inside != nullptr);
  CHECK(to_text(*inside).starts_with("uint8 0..255"));
  CHECK(to_text(*find(prepared, "a")->output_qspec).starts_with("int8"));
  CHECK(reason_for(prepared.report, "b").empty());
}

TEST_CASE("equal specs on both sides of the border of a standalone part are not shared",
          "[quantizers][opaque]") {
  const size_t shared = prepare(R"({"base": "xnnpack", "global": {}})").observed.observers.size();
  const Prepared prepared = prepare(
      with_opaque(R"([{"module": "head", "quantizer": {"base": "xnnpack", "global": {}}}])"));
  CHECK(find(prepared, "b")->rule.starts_with("xnnpack: linear"));
  CHECK(prepared.observed.observers.size() == shared + 2);  // %a for head, %r for out
}

TEST_CASE("one call of an opaque module with modules in it is one island, whatever its names",
          "[quantizers][opaque]") {
  test::ModuleStacks stacks = kStacks;
  stacks["b"] =
      "L__self__,,my.Net;L__self___head,head,my.Head;L__self___head_fc,head.fc,torch.nn.modules."
      "linear.Linear";
  stacks["r"] = "L__self__,,my.Net;L__self___head,head,my.Head";
  const Prepared prepared = prepare(with_opaque(R"([{"module": "head"}])"), kNet, stacks);
  REQUIRE(prepared.observed.islands.size() == 1);
  CHECK(names(prepared.observed.islands[0].inputs) == "a");
  CHECK(names(prepared.observed.islands[0].outputs) == "r");
}

TEST_CASE(
    "ops of an opaque part with border specs have a reason unless all around them is quantized",
    "[quantizers][opaque]") {
  const std::string act = R"({"dtype": "int8", "observer": "min_max"})";
  const auto reasons = [&](const std::string& part) {
    const Prepared prepared =
        prepare(with_opaque("[{" + part + R"(, "quantized_inputs": {"0": )" + act +
                            R"(}, "quantized_outputs": {"0": )" + act + "}}]"));
    return reason_for(prepared.report, "b") + "; " + reason_for(prepared.report, "r");
  };
  CHECK(reasons(R"("module": "head")") ==
        "in the opaque part module \"head\"; in the opaque part module \"head\"");
  CHECK(reasons(R"("op": "relu")") == "; ");
}

TEST_CASE("an opaque list of modules is whole where its modules read each other",
          "[quantizers][opaque]") {
  test::ModuleStacks stacks = kStacks;
  stacks["a"] = "L__self__,,Net;L__self___layers_0,layers.0,my.Layer";
  stacks["b"] = "L__self__,,Net;L__self___layers_1,layers.1,my.Layer";
  stacks["d"] = "L__self__,,Net;L__self___layers_2,layers.2,my.Layer";
  const Prepared prepared = prepare(with_opaque(R"([{"module": "layers"}])"), kNet, stacks);
  REQUIRE(prepared.observed.islands.size() == 2);  // a relu of head is between them
  CHECK(names(prepared.observed.islands[0].inputs) == "x");
  CHECK(names(prepared.observed.islands[0].outputs) == "b");
  CHECK(names(prepared.observed.islands[1].inputs) == "r");
}

TEST_CASE("each call of an opaque module is an island", "[quantizers][opaque]") {
  test::ModuleStacks stacks = kStacks;
  stacks["a"] = "L__self__,,Net;L__self__head,head,my.Head";
  stacks["b"] = "L__self__,,Net;L__self__out,out,my.Out";
  stacks["r"] = "L__self__,,Net;L__self__out,out,my.Out";
  stacks["d"] = "L__self__,,Net;L__self__head@1,head,my.Head";
  const Prepared prepared = prepare(with_opaque(R"([{"module": "head"}])"), kNet, stacks);
  REQUIRE(prepared.observed.islands.size() == 2);
  CHECK(names(prepared.observed.islands[0].inputs) == "x");
  CHECK(names(prepared.observed.islands[0].outputs) == "a");
  CHECK(names(prepared.observed.islands[1].inputs) == "r");
  CHECK(names(prepared.observed.islands[1].outputs) == "d");
}

TEST_CASE("ops of a list that read each other are one island", "[quantizers][opaque]") {
  const char* net = R"(graph(%w = param "w": f32[4,4], %x: f32[1,4], %y: f32[1,4]):
    %m: f32[1,4] = aten.mul.Tensor(%x, %y)
    %s: f32[1,4] = aten.sigmoid.default(%m)
    %a: f32[1,4] = aten.linear.default(%s, %w)
    %n: f32[1,4] = aten.mul.Tensor(%a, %s)
    %o: f32[1,4] = aten.mul.Tensor(%a, %a)
    return (%n, %o))";
  const Prepared prepared = prepare(with_opaque(R"([{"ops": ["aten.mul", "sigmoid"]}])"), net, {});
  REQUIRE(prepared.observed.islands.size() == 2);
  CHECK(names(prepared.observed.islands[0].inputs) == "x y a");
  CHECK(names(prepared.observed.islands[0].outputs) == "s n");
  CHECK(names(prepared.observed.islands[1].inputs) == "a");
}

TEST_CASE("opaque parts of a composition and of --config count for all of its quantizers",
          "[quantizers][opaque]") {
  const Prepared prepared = prepare(
      R"({"compose": [{"base": "embedding", "global": {}, "opaque": [{"module": "head"}]}, "xnnpack"]})");
  CHECK_FALSE(has_specs(prepared, "b"));
  CHECK(find(prepared, "b")->rule == "opaque part module \"head\"");
  CHECK(has_specs(prepared, "a"));
}

TEST_CASE("faults of opaque parts are errors with their place", "[quantizers][opaque]") {
  const auto check = [](const std::string& parts, const std::string& message) {
    CHECK(message_of(with_opaque(parts)) == "quantizer: f.json: /opaque" + message);
  };
  check("{}", ": got {}, want a list of parts, e.g. [{\"module\": \"postprocess\"}]");
  check(
      R"(["head"])",
      R"(/0: got "head", want an object such as {"module": "postprocess"} or {"op": "my_ns.my_op.default"})");
  check("[{}]",
        "/0: opaque part: names nothing, want exactly one of module, module_type, op and ops");
  check(R"([{"module": "head", "op": "relu"}])",
        "/0: opaque part: names several kinds of ops, want exactly one of module, module_type, op "
        "and ops");
  check(R"([{"module": "haed"}])",
        "/0: module \"haed\" is not a module of the model, the closest: head, head.fc, a");
  check(R"([{"op": "aten.linaer"}])",
        "/0: op \"aten.linaer\" is neither in the model nor known, the closest: "
        "aten.linear.default, aten.relu.default");
  check(R"([{"ops": []}])",
        R"(/0/ops: got [], want a list of ops, e.g. ["aten.mul", "my_ns.gate.default"])");
  check(R"([{"module": "head", "quantizer": "x87"}])",
        fmt::format(
            R"(/0/quantizer: got "x87", want one of {}, the path of a .json file, or an object)",
            fmt::join(quantizer_names(), ", ")));  // other tests register some
  check(
      R"([{"module": "head", "quantized_inputs": {"x": null}}])",
      "/0/quantized_inputs/x: the key is not an index, want the number of the tensor as a string, "
      "\"0\" for the first");
  check(
      R"([{"module": "head", "quantized_inputs": {"0": null}}])",
      R"(/0/quantized_inputs/0: got null, want a spec with an observer, a fixed one, or {"same_as": {"input": 0}})");
  check(R"([{"module": "head", "recorded": true, "quantizer": "x86"}])",
        "/0: module \"head\": is recorded and has a quantizer, whose observers would see no data; "
        "leave out one of them");
  check(
      R"([{"module": "head", "quantizer": {"base": "x86", "global": {}, "opaque": [{"module": "head.fc"}]}}])",
      "/0: module \"head\": has a quantizer that itself has opaque parts; list those before this "
      "part instead");
}

TEST_CASE("border specs that do not fit are errors", "[quantizers][opaque]") {
  const std::string act = R"({"dtype": "int8", "observer": "min_max"})";
  CHECK(
      message_of(with_opaque(R"([{"module": "head", "quantized_inputs": {"1": )" + act + "}}]")) ==
      "quantizer: module \"head\": has no input 1, want one of 0 %a");
  CHECK(message_of(with_opaque(
            R"([{"module": "head", "quantized_outputs": {"0": {"same_as": {"input": 0}}}}])")) ==
        "quantizer: module \"head\": shares the observer of input 0, which has no spec; give it "
        "one in quantized_inputs");
}

}  // namespace
}  // namespace octet::test_opaque
