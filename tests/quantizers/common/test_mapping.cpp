// Precedence of rows, rows for calls and regular expressions, and rows that match nothing in the
// model.
#include <catch2/catch.hpp>

#include "annotate/prepare/prepare.h"
#include "core/base/error.h"
#include "core/text/text.h"
#include "quantizers/annotate_text.h"
#include "quantizers/registry.h"
#include "quantizers/x86/quantizer.h"
#include "support/error_message.h"

namespace octet::test_mapping {
namespace {

using test::annotate_text;
using test::reason_for;

// block calls lin, relu, lin again (one module), and a functional linear itself; head is a
// linear.
constexpr const char* kNet =
    R"(graph(%x: f32[2,4], %w = param "block.lin.weight": f32[4,4], %v = param "head.weight": f32[4,4]):
    %a: f32[2,4] = aten.linear.default(%x, %w)
    %b: f32[2,4] = aten.linear.default(%a, %w)
    %c: f32[2,4] = aten.linear.default(%b, %w)
    %d: f32[2,4] = aten.linear.default(%c, %v)
    return (%d))";
const std::string kBlock = "0,,Net;1,block,my.Block";
const std::string kLin = kBlock + ";2,block.lin,torch.nn.modules.linear.Linear";
const test::ModuleStacks kStacks = {
    {"a", kLin}, {"b", kLin}, {"c", kBlock}, {"d", "0,,Net;1,head,torch.nn.modules.linear.Linear"}};

// The names of the annotated nodes: "a b d".
std::string names_of(const std::string& annotations) {
  std::string names;
  for (size_t at = 0; at < annotations.size(); at = annotations.find('\n', at) + 1)
    names += (at ? " " : "") + annotations.substr(at + 1, 1);
  return names;
}

std::string quantized(const std::string& json) {
  const std::unique_ptr<Quantizer> quantizer = parse_quantizer(json, "f.json");
  return names_of(annotate_text(kNet, *quantizer, kStacks).text);
}

std::string reason(const std::string& json, const std::string& node) {
  const std::unique_ptr<Quantizer> quantizer = parse_quantizer(json, "f.json");
  return reason_for(annotate_text(kNet, *quantizer, kStacks).report, node);
}

// What the preparation of a graph says.
std::string message_of(const std::string& json, QuantizerOptions options = {},
                       const test::ModuleStacks& stacks = kStacks) {
  return test::error_message([&] {
    Graph graph = parse_graph(kNet);
    for (const auto& [name, stack] : stacks)
      graph.find_node(name)->metadata["nn_module_stack"] = stack;
    Report report;
    const std::unique_ptr<Quantizer> quantizer = parse_quantizer(json, "f.json", options);
    PrepareOptions prepare_options;
    prepare_options.compat = options.compat;
    prepare_pt2e(std::move(graph), *quantizer, report, prepare_options);
  });
}

std::string on_xnnpack(const std::string& rows) {
  return R"({"base": "xnnpack", "global": {}, )" + rows + "}";
}

}  // namespace

TEST_CASE("a regex covers the modules whose whole path matches", "[quantizers][mapping]") {
  CHECK(quantized(on_xnnpack(R"("module_name_regex": {"block\\..*": null})")) == "c d");
  CHECK(quantized(on_xnnpack(R"("module_name_regex": {"block": null})")) == "d");
  CHECK(quantized(on_xnnpack(R"("module_name_regex": {"bloc": null})")) == "a b c d");
  CHECK(quantized(R"({"base": "xnnpack", "module_name_regex": {"block.*|he.d": {}}})") ==
        "a b c d");
  CHECK(reason(on_xnnpack(R"("module_name_regex": {"block\\..*": null})"), "a") ==
        "excluded by module_name_regex \"block\\..*\"");
}

TEST_CASE("an expression with very many ways to match is answered at once",
          "[quantizers][mapping]") {
  CHECK(quantized(on_xnnpack(
            R"("module_name_regex": {"(.*)*(.*)*(.*)*(b|bl|.l)*(.*)*n": null})")) == "c d");
}

TEST_CASE("of several regexes the one of the innermost module wins, then the first",
          "[quantizers][mapping]") {
  CHECK(quantized(on_xnnpack(R"("module_name_regex": {"bl.ck": null, "block.l.n": {}})")) ==
        "a b d");
  CHECK(quantized(on_xnnpack(R"("module_name_regex": {"block.lin": null, "block.l.*": {}})")) ==
        "c d");
  CHECK(quantized(on_xnnpack(R"("module_name_regex": {"block.l.*": {}, "block.lin": null})")) ==
        "a b c d");
}

TEST_CASE("a call is named by its module, its op and its place among the calls",
          "[quantizers][mapping]") {
  CHECK(quantized(on_xnnpack(
            R"("call_index": {"block.lin": {"aten.linear.default": {"1": null}}})")) == "a c d");
  CHECK(
      quantized(on_xnnpack(
          R"("call_index": {"block.lin": {"aten.linear": {"0": null}}, "head": {"linear": {"0": null}}})")) ==
      "b c");
  CHECK(quantized(on_xnnpack(R"("call_index": {"block": {"linear": {"0": null}}})")) == "a b d");
  CHECK(quantized(R"({"base": "xnnpack", "call_index": {"block.lin": {"linear": {"1": {}}}}})") ==
        "b");
  CHECK(reason(on_xnnpack(R"("call_index": {"block.lin": {"linear": {"1": null}}})"), "b") ==
        "excluded by call_index 1 of linear in module \"block.lin\"");
}

TEST_CASE("the empty module name of a call is the model itself", "[quantizers][mapping]") {
  const std::unique_ptr<Quantizer> quantizer =
      parse_quantizer(on_xnnpack(R"("call_index": {"": {"linear": {"2": null}}})"), "f.json");
  CHECK(names_of(annotate_text(kNet, *quantizer).text) == "a b d");
}

TEST_CASE("a module name may be that of a list of modules, which is never called",
          "[quantizers][mapping]") {
  const std::string layer = ",torch.nn.modules.linear.Linear";
  const test::ModuleStacks stacks = {{"a", "0,,Net;1,layers.0" + layer},
                                     {"b", "0,,Net;1,layers.1" + layer},
                                     {"c", "0,,Net;1,layers.1,my.Block;2,layers.1.parts.0" + layer},
                                     {"d", "0,,Net;1,layers_end" + layer}};
  const auto annotated = [&](const std::string& rows) {
    const std::unique_ptr<Quantizer> quantizer =
        parse_quantizer(R"({"base": "xnnpack", )" + rows + "}", "f.json");
    return names_of(annotate_text(kNet, *quantizer, stacks).text);
  };
  CHECK(annotated(R"("module_name": {"layers": {}})") == "a b c");
  CHECK(annotated(R"("global": {}, "module_name": {"layers": null})") == "d");
  CHECK(annotated(R"("module_name": {"layers": {}, "layers.1": null})") == "a");
  CHECK(annotated(R"("module_name": {"layers.1.parts": null, "layers.1": {}})") == "b");
  CHECK(
      message_of(R"({"base": "xnnpack", "module_name": {"layer": {}}})", {}, stacks) ==
      "quantizer: f.json: /module_name/layer: module_name \"layer\" is not a module of the model, "
      "the closest: layers, layers.0, layers.1");
}

TEST_CASE("each kind of row wins over the weaker ones", "[quantizers][mapping]") {
  const std::vector<std::string> rows = {
      R"("op_type": {"linear": VALUE})",
      R"("module_type": {"torch.nn.Linear": VALUE})",
      R"("module_name_regex": {"block.li.": VALUE})",
      R"("module_name": {"block.lin": VALUE})",
      R"("call_index": {"block.lin": {"linear": {"0": VALUE}}})",
  };
  const auto with = [](std::string row, const std::string& value) {
    return row.replace(row.find("VALUE"), 5, value);
  };
  for (size_t strong = 0; strong < rows.size(); ++strong) {
    CHECK(quantized(R"({"base": "xnnpack", "global": null, )" + with(rows[strong], "{}") + "}")
              .starts_with("a"));
    CHECK_FALSE(
        quantized(R"({"base": "xnnpack", "global": {}, )" + with(rows[strong], "null") + "}")
            .starts_with("a"));
    for (size_t weak = 0; weak < strong; ++weak) {
      CHECK(quantized(R"({"base": "xnnpack", )" + with(rows[strong], "{}") + ", " +
                      with(rows[weak], "null") + "}")
                .starts_with("a"));
      CHECK_FALSE(quantized(R"({"base": "xnnpack", )" + with(rows[strong], "null") + ", " +
                            with(rows[weak], "{}") + "}")
                      .starts_with("a"));
    }
  }
}

TEST_CASE("every quantizer takes regexes and calls", "[quantizers][mapping]") {
  const std::string rows =
      R"("module_name_regex": {"bl.*": null}, "call_index": {"block": {"linear": {"0": {}}}}})";
  CHECK(quantized(R"({"base": "qnnpack", "global": {}, )" + rows) == "c d");
  CHECK(quantized(R"({"base": "x86", "global": {}, )" + rows) == "c d");
  const std::string declared = R"j({"specs": {"act": {"dtype": "int8", "observer": "min_max"}},
      "patterns": [{"pattern": "linear(x, w)", "inputs": {"x": "act"}}], )j";
  CHECK(quantized(declared + rows) == "c d");
  CHECK(
      quantized(
          R"({"base": "x86", "global": {}, "call_index": {"head": {"torch.nn.functional.linear": {"0": null}}}})") ==
      "a b c");
}

TEST_CASE("an embedding takes regexes and calls", "[quantizers][mapping]") {
  constexpr const char* kTables = R"(graph(%i: i64[3], %t = param "t": f32[10,4]):
    %a: f32[3,4] = aten.embedding.default(%t, %i) %b: f32[3,4] = aten.embedding.default(%t, %i) return (%a, %b))";
  const auto names = [&](const std::string& json) {
    return names_of(annotate_text(kTables, *parse_quantizer(json, "f.json"),
                                  {{"a", "0,,M;1,t,my.T"}, {"b", "0,,M;1,t,my.T"}})
                        .text);
  };
  CHECK(names(R"({"base": "embedding", "module_name_regex": {"t": {}}})") == "a b");
  CHECK(
      names(
          R"({"base": "embedding", "global": {}, "call_index": {"t": {"embedding": {"1": null}}}})") ==
      "a");
}

TEST_CASE("rows at the top of a composition are set on all its parts", "[quantizers][mapping]") {
  CHECK(
      quantized(
          R"({"compose": ["embedding", "xnnpack"], "call_index": {"block.lin": {"linear": {"1": null}}}})") ==
      "a c d");
  CHECK(quantized(R"({"compose": ["x86", "xnnpack"], "module_name_regex": {"block.*": null}})") ==
        "d");
  CHECK(message_of(R"({"compose": ["embedding", "xnnpack"], "global": {"act_qmin": 0}})") ==
        "quantizer: f.json: /global/act_qmin: unknown key, want one of weight_bits");
}

TEST_CASE("x86: a regex or a call that mixes dynamic and static is skipped, and the report says so",
          "[quantizers][mapping][x86]") {
  X86InductorQuantizer quantizer;
  const QuantizationConfig dynamic =
      get_default_x86_inductor_quantization_config({.is_dynamic = true});
  quantizer.set_global(get_default_x86_inductor_quantization_config())
      .set_module_name_regex("bl.*", dynamic)
      .set_call_index({"head", "linear", 0}, dynamic);
  const test::Annotated result = annotate_text(kNet, quantizer, kStacks);
  CHECK(names_of(result.text) == "a b c d");
  REQUIRE(result.report.notes().size() == 2);
  CHECK(result.report.notes()[0] ==
        "x86: module_name_regex \"bl.*\" is skipped: mixed dynamic and static configurations are "
        "not supported");
  CHECK(result.report.notes()[1] ==
        "x86: call_index 0 of linear in module \"head\" is skipped: mixed dynamic and static "
        "configurations are not supported");
}

TEST_CASE("a row that matches nothing in the model is an error that names the closest names",
          "[quantizers][mapping]") {
  const std::string start = "quantizer: f.json: /";
  CHECK(message_of(on_xnnpack(R"("module_name": {"blok": null})")) ==
        start +
            "module_name/blok: module_name \"blok\" is not a module of the model, the closest: "
            "block, "
            "block.lin, head");
  CHECK(message_of(on_xnnpack(R"("module_name_regex": {"lin.*": null})")) ==
        start +
            "module_name_regex/lin.*: module_name_regex \"lin.*\" does not match the whole path of "
            "any module of the model, the closest: block.lin, "
            "block, head");
  CHECK(
      message_of(on_xnnpack(R"("module_type": {"Blok": null})")) ==
      start +
          "module_type/Blok: module_type \"Blok\" is not the type of any module of the model, the "
          "closest: my.Block, "
          "torch.nn.modules.linear.Linear, Net");
  CHECK(message_of(on_xnnpack(R"("module_type": {"torch.nn.Conv2d": null})")) ==
        start +
            "module_type/torch.nn.Conv2d: module_type \"torch.nn.Conv2d\" is not the type of any "
            "module of the model, the closest: "
            "torch.nn.modules.linear.Linear, my.Block, Net");
  CHECK(message_of(on_xnnpack(R"("op_type": {"aten.linaer": null})")) ==
        start +
            "op_type/aten.linaer: op_type \"aten.linaer\" is not an op, the closest: "
            "aten.linear.default");
  CHECK(message_of(on_xnnpack(R"("call_index": {"block.ln": {"linear": {"0": null}}})")) ==
        start +
            "call_index/block.ln/linear/0: call_index 0 of linear in module \"block.ln\": "
            "\"block.ln\" is not a module of the model, the closest: "
            "block.lin, block, head");
  CHECK(message_of(on_xnnpack(R"("call_index": {"block.lin": {"aten.mul": {"0": null}}})")) ==
        start +
            "call_index/block.lin/aten.mul/0: call_index 0 of aten.mul in module \"block.lin\": "
            "the module itself (without its submodules) has no such op, the closest: "
            "aten.linear.default");
  CHECK(message_of(on_xnnpack(R"("call_index": {"block.lin": {"linear": {"2": null}}})")) ==
        start +
            "call_index/block.lin/linear/2: call_index 2 of linear in module \"block.lin\": the "
            "module calls the op 2 times, want an index of 0 .. 1");
  CHECK(message_of(on_xnnpack(R"("module_name": {"head": null})"), {}, {}) ==
        start +
            "module_name/head: module_name \"head\" is not a module of the model, which has no "
            "modules");
  CHECK(
      message_of(on_xnnpack(
          R"("module_name": {"head": null}, "call_index": {"block.lin": {"linear": {"1": null}}})")) ==
      "no error");
  CHECK(message_of(R"({"compose": ["xnnpack"], "module_name": {"blok": null}})")
            .starts_with("quantizer: f.json: /module_name/blok: "));
  CHECK(message_of(R"({"compose": [{"base": "x86", "module_name": {"blok": {}}}]})")
            .starts_with("quantizer: f.json: /compose/0/module_name/blok: "));
}

TEST_CASE("an op that the model lacks is not an error, because a file serves many models",
          "[quantizers][mapping]") {
  for (const char* op : {"aten.mul.Tensor", "aten.conv2d", "mul", "aten.lstm", "aten.lstm.input"})
    CHECK(message_of(on_xnnpack(R"("op_type": {")" + std::string(op) + R"(": null})")) ==
          "no error");
}

TEST_CASE(
    "compat: rows without a match are as silent as the peer, and its quantizers have neither "
    "regexes nor calls",
    "[quantizers][mapping][compat]") {
  QuantizerOptions options;
  options.compat = Compat::kTorchao;
  CHECK(message_of(on_xnnpack(R"("module_name": {"blok": null})"), options) == "no error");
  for (const char* base : {"xnnpack", "x86", "embedding"}) {
    const std::string start = R"({"base": ")" + std::string(base) + R"(", "global": {}, )";
    CHECK(message_of(start + R"("module_name_regex": {"bl.*": null}})", options) ==
          "quantizer: f.json: /module_name_regex/bl.*: module_name_regex: torchao's quantizers "
          "have no such setting; leave out --compat torchao");
    CHECK(message_of(start + R"("call_index": {"head": {"linear": {"0": null}}}})", options) ==
          "quantizer: f.json: /call_index/head/linear/0: call_index: torchao's quantizers have no "
          "such setting; leave out --compat torchao");
  }
}

TEST_CASE("faults of regexes and calls are named with their place", "[quantizers][mapping][json]") {
  const auto regex_message = [](const std::string& regex) {
    return message_of(on_xnnpack(R"("module_name_regex": {")" + regex + R"(": null})"));
  };
  CHECK(regex_message("(a") ==
        "quantizer: f.json: /module_name_regex/(a: module_name_regex \"(a\": not a regular "
        "expression (ECMAScript): a ( or ) is unmatched, or a * "
        "+ ? { repeats nothing");
  CHECK_THAT(
      regex_message("[a"),
      Catch::Matchers::EndsWith("not a regular expression (ECMAScript): a [ or ] is unmatched"));
  CHECK_THAT(regex_message("*"),
             Catch::Matchers::EndsWith("not a regular expression (ECMAScript): a ( or ) is "
                                       "unmatched, or a * + ? { repeats nothing"));
  CHECK_THAT(regex_message("[z-a]"),
             Catch::Matchers::EndsWith("the range in [ ] is empty, want e.g. [a-z]"));
  CHECK_THAT(regex_message(std::string(100000, '(')),
             Catch::Matchers::EndsWith("got 100000 characters, want at most 500"));
  CHECK(regex_message("a\\nb") ==
        "quantizer: f.json: /module_name_regex/a?b: the name has a control character");
  CHECK_THAT(regex_message(""),
             Catch::Matchers::Contains("/module_name_regex/: the name is empty"));
  const auto call_message = [](const std::string& rows) {
    return message_of(on_xnnpack(R"("call_index": )" + rows));
  };
  CHECK(call_message("3") ==
        "quantizer: f.json: /call_index: got 3, want an object of names and options");
  CHECK(call_message(R"({"head": null})") ==
        "quantizer: f.json: /call_index/head: got null, want an object of ops, e.g. "
        "{\"aten.linear.default\": {\"0\": null}}");
  CHECK(call_message(R"({"head": {"linear": null}})") ==
        "quantizer: f.json: /call_index/head/linear: got null, want an object of indices, e.g. "
        "{\"0\": null}");
  for (const char* index : {"", "-1", "x", "1.5", "99999999999999999999"})
    CHECK_THAT(call_message(R"({"head": {"linear": {")" + std::string(index) + R"(": null}}})"),
               Catch::Matchers::EndsWith(": the key is not an index, want the number of the call "
                                         "as a string, \"0\" for the first"));
  CHECK(call_message(R"({"head": {"linear": {"0": {"bits": 4}}}})")
            .starts_with("quantizer: f.json: /call_index/head/linear/0/bits: unknown key"));
}

}  // namespace octet::test_mapping
