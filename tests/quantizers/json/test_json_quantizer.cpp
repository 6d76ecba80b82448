// Quantizers by name and from JSON files, and errors for wrong files.
#include <catch2/catch.hpp>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "annotate/annotation/annotation.h"
#include "core/text/text.h"
#include "quantizers/annotate_text.h"
#include "quantizers/registry.h"
#include "quantizers/xnnpack/quantizer.h"
#include "support/error_message.h"

namespace octet::test_json_quantizer {
namespace {

using Catch::Matchers::Contains;

class JsonFile {
 public:
  explicit JsonFile(const std::string& text) {
    static int count = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("octet_test_" + std::to_string(::getpid()) + "_" + std::to_string(count++) + ".json");
    std::ofstream(path_) << text;
  }
  ~JsonFile() { std::filesystem::remove(path_); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

std::string message_of(const std::string& text) {
  const JsonFile file(text);
  return test::error_message([&] { make_quantizer(file.path()); });
}

std::string annotate(Quantizer& quantizer, const char* text) {
  return test::annotate_plain(text, quantizer).text;
}

constexpr const char* kLinear =
    R"(graph(%x: f32[2,4], %w = param "fc.weight": f32[3,4]): %y: f32[2,3] = aten.linear.default(%x, %w) return (%y))";

}  // namespace

TEST_CASE("the built-in names quantize per channel", "[quantizers][registry]") {
  for (const char* name : {"xnnpack", "qnnpack"}) {
    const std::unique_ptr<Quantizer> quantizer = make_quantizer(name);
    CHECK(quantizer->name() == name);
    CHECK_THAT(annotate(*quantizer, kLinear),
               Contains("per_channel_symmetric axis 0 per_channel_mse"));
  }
}

TEST_CASE("an unknown quantizer is refused with the names of this build",
          "[quantizers][registry]") {
  const std::string names =
      "not in this build, want embedding, kv_cache, qnnpack, x86, xnnpack or the path of a .json "
      "file";
  CHECK_THROWS_WITH(make_quantizer("acme"), "quantizer: \"acme\": " + names);
  CHECK_THROWS_WITH(make_quantizer("xnnpack,acme"), "quantizer: \"acme\": " + names);
  CHECK_THROWS_WITH(make_quantizer("xnnpack,"),
                    "quantizer: \"xnnpack,\": has an empty name, want e.g. embedding,xnnpack");
  CHECK_THROWS_WITH(make_quantizer("./"),
                    "quantizer: ./: cannot be read, want a JSON file; check the path");
  CHECK_THROWS_WITH(make_quantizer("missing.json"),
                    "quantizer: missing.json: cannot be read, want a JSON file; check the path");
}

TEST_CASE("names and files with commas between are composed in their order",
          "[quantizers][registry]") {
  const JsonFile file(R"({"base": "x86", "name": "server", "global": {}})");
  CHECK(make_quantizer("embedding,xnnpack")->name() == "embedding,xnnpack");
  CHECK(make_quantizer("embedding," + file.path())->name() == "embedding,server");
  CHECK(make_quantizer("x86")->name() == "x86");
}

TEST_CASE("compose takes names, objects and files beside the file", "[quantizers][json]") {
  const JsonFile inner(R"({"base": "x86", "name": "server", "global": {}})");
  const std::string name = std::filesystem::path(inner.path()).filename().string();
  const JsonFile file(
      R"({"compose": ["embedding", {"base": "xnnpack", "global": {"is_per_channel": true}}, ")" +
      name + "\"]}");
  CHECK(make_quantizer(file.path())->name() == "embedding,xnnpack,server");
}

TEST_CASE("options choose observers, by name or with arguments, for all or for what a row covers",
          "[quantizers][json]") {
  const auto annotated = [](const char* json) {
    return annotate(*parse_quantizer(json, "q.json"), kLinear);
  };
  const std::string mse = annotated(
      R"({"base": "xnnpack", "global": {"is_per_channel": true, "act_observer": "mse", "weight_observer": "per_channel_mse"}})");
  CHECK_THAT(mse, Contains("%x: int8 -128..127 per_tensor_affine mse"));
  CHECK_THAT(mse, Contains("%w: int8 -127..127 per_channel_symmetric axis 0 per_channel_mse"));
  CHECK_THAT(
      annotated(
          R"({"base": "x86", "op_type": {"torch.nn.functional.linear": {"act_observer": {"name": "percentile", "percentile": 99.9}}}})"),
      Contains("%x: uint8 0..255 per_tensor_affine percentile"));
  CHECK_THAT(
      annotated(
          R"({"base": "x86", "global": {"is_weight_only": true, "weight_bits": 4, "group_size": 0, "weight_observer": "per_channel_mse"}})"),
      Contains("%w: int8 -8..7 per_channel_symmetric axis 0 per_channel_mse"));
  const ObserverChoice choice{.name = "percentile", .eps = {}, .affine = {}, .percentile = 99.9};
  const QuantizationConfig config =
      get_symmetric_quantization_config({.own = {.act_observer = choice}});
  CHECK(config.input_activation->observer_or_fake_quant_ctr.percentile == 99.9);
  CHECK(config.input_activation->observer_or_fake_quant_ctr.eps == kBackendEps);
}

TEST_CASE(
    "ranges of weights are searched by default, and from minimum to maximum where that is chosen "
    "and in compat",
    "[quantizers][json]") {
  const auto weight = [](const std::string& global, bool compat) {
    QuantizerOptions options;
    options.compat = compat ? Compat::kTorchao : Compat::kNone;
    const JsonFile file(global);
    // torchao's X86 quantizer asks where nodes came from.
    const std::string text =
        test::annotate_plain(kLinear, *make_quantizer(file.path(), options), {},
                             {{"y", "linear,torch.nn.modules.linear.Linear"}})
            .text;
    const size_t begin = text.find("%w: ");
    if (begin == std::string::npos) return "not quantized: " + text;
    return text.substr(
        begin + 4, std::min(text.find_first_of(",\n", begin), text.find(" =>", begin)) - begin - 4);
  };
  struct Row {
    const char* global;
    const char* own;
    const char* compat;
  };
  // clang-format off
  const Row rows[] = {
      {R"({"base": "xnnpack", "global": {"is_per_channel": true}})",                                "int8 -127..127 per_channel_symmetric axis 0 per_channel_mse",     "int8 -127..127 per_channel_symmetric axis 0 per_channel_min_max"},
      {R"({"base": "xnnpack", "global": {}})",                                                      "int8 -127..127 per_tensor_symmetric weight_mse",                  "int8 -127..127 per_tensor_symmetric min_max"},
      {R"({"base": "x86", "global": {}})",                                                          "int8 -128..127 per_channel_symmetric axis 0 per_channel_mse",     "int8 -128..127 per_channel_symmetric axis 0 per_channel_min_max"},
      {R"({"base": "x86", "global": {"search_weight_ranges": false}})",                             "int8 -128..127 per_channel_symmetric axis 0 per_channel_min_max", "int8 -128..127 per_channel_symmetric axis 0 per_channel_min_max"},
      {R"({"base": "x86", "global": {"weight_observer": "per_channel_min_max"}})",                  "int8 -128..127 per_channel_symmetric axis 0 per_channel_min_max", "int8 -128..127 per_channel_symmetric axis 0 per_channel_min_max"},
      {R"({"base": "xnnpack", "global": {"is_dynamic": true, "weight_bits": 4, "group_size": 2}})", "int8 -8..7 SYMMETRIC_NO_CLIPPING_ERR per_group 2 affine_mse",     "int8 -8..7 SYMMETRIC_NO_CLIPPING_ERR per_group 2 affine_min_max"},
  };
  // clang-format on
  for (const Row& row : rows) {
    INFO(row.global);
    CHECK(weight(row.global, false) == row.own);
    CHECK(weight(row.global, true) == row.compat);
  }
}

TEST_CASE("rows added to a built-in quantizer use its weight scales", "[quantizers][json]") {
  const auto weights = [](const char* rows, Compat compat, std::optional<bool> is_per_channel) {
    const JsonFile file(rows);
    QuantizerOptions options;
    options.compat = compat;
    options.is_per_channel = is_per_channel;
    options.config = file.path();
    return annotate(*make_quantizer("xnnpack", options), kLinear);
  };
  const char* observer = R"({"global": {"act_observer": "mse"}})";
  CHECK_THAT(weights(observer, Compat::kNone, {}), Contains("per_channel_symmetric axis 0"));
  CHECK_THAT(weights(observer, Compat::kNone, {}), Contains("per_tensor_affine mse"));
  CHECK_THAT(weights(R"({"global": {"is_per_channel": false}})", Compat::kNone, {}),
             Contains("%w: int8 -127..127 per_tensor_symmetric"));
  CHECK_THAT(weights(observer, Compat::kNone, false), Contains("%w: int8 -127..127 per_tensor_"));
  // torchao's configurations are per tensor unless they say so
  CHECK_THAT(weights(observer, Compat::kTorchao, {}), Contains("%w: int8 -127..127 per_tensor_"));
}

TEST_CASE("observers that do not fit are refused with the option's place", "[quantizers][json]") {
  const auto message = [](const std::string& options) {
    return message_of(R"({"base": "xnnpack", "global": )" + options + "}");
  };
  CHECK_THAT(message(R"({"weight_observer": "per_channel_mse"})"),
             Contains(": /global: weight_observer: per_channel_mse: this observer works per "
                      "channel, got qscheme per_tensor_symmetric; use weight_mse"));
  CHECK_THAT(message(R"({"act_observer": "acme"})"),
             Contains(": /global/act_observer: got \"acme\", want one of min_max"));
  CHECK_THAT(message(R"({"act_observer": {"name": "percentile", "percentile": 0}})"),
             Contains(": /global/act_observer/percentile: got 0, want"));
  CHECK_THAT(message(R"({"act_observer": {"name": "percentile", "percentile": 101}})"),
             Contains(": /global/act_observer/percentile: got 101, want at most 100"));
  CHECK_THAT(message(R"({"act_observer": "placeholder"})"),
             Contains(": /global: act_observer: got placeholder, which learns no range"));
  CHECK_THAT(message(R"({"act_observer": "mse", "is_dynamic": true})"),
             Contains(": /global: act_observer: got mse together with is_dynamic"));
  CHECK_THAT(message(R"({"act_observer": "mse", "is_weight_only": true})"),
             Contains(": /global: act_observer: got mse together with is_weight_only"));
  CHECK_THAT(
      message(
          R"({"is_per_channel": true, "weight_bits": 4, "is_weight_only": true, "weight_observer": "per_channel_mse"})"),
      Contains(": /global: weight_observer: got per_channel_mse together with groups of weights"));
  CHECK_THAT(message(R"({"act_observer": "affine_min_max"})"),
             Contains(": /global: act_observer: got affine_min_max, want an observer of"));
}

TEST_CASE("a file that composes itself is refused", "[quantizers][json]") {
  const std::string name = "octet_test_" + std::to_string(::getpid()) + "_composes_itself.json";
  const std::string path = (std::filesystem::temp_directory_path() / name).string();
  std::ofstream(path) << R"({"compose": [")" << name << R"("]})";
  CHECK_THROWS_WITH(make_quantizer(path),
                    "quantizer: " + path + ": files compose each other more than 8 deep");
  std::filesystem::remove(path);
}

TEST_CASE("x86 takes its options, rows of functions, types and names, null, and the float16 preset",
          "[quantizers][json]") {
  const auto annotated = [](const char* json) {
    return annotate(*parse_quantizer(json, "x86.json"), kLinear);
  };
  CHECK_THAT(annotated(R"({"base": "x86", "global": {}})"),
             Contains("%x: uint8 0..255 per_tensor_affine histogram"));
  CHECK_THAT(annotated(R"({"base": "x86", "global": {"reduce_range": true}})"),
             Contains("%x: uint8 0..127"));
  CHECK_THAT(annotated(R"({"base": "x86", "global": {"is_dynamic": true}})"),
             Contains("dynamic ASYMMETRIC per_token affine_placeholder"));
  CHECK_THAT(annotated(R"({"base": "x86", "global": {"preset": "linear_dynamic_fp16"}})"),
             Contains("%w: float16"));
  CHECK(
      annotated(R"({"base": "x86", "global": {}, "op_type": {"torch.nn.functional.linear": null}})")
          .empty());
  CHECK_THAT(annotated(R"({"base": "x86", "op_type": {"torch.nn.functional.linear": {}}})"),
             Contains("%w: int8 -128..127 per_channel_symmetric axis 0"));
}

TEST_CASE("embedding takes weight_bits and null", "[quantizers][json]") {
  constexpr const char* kTable =
      R"(graph(%i: i64[3], %t = param "t": f32[10,4]): %e: f32[3,4] = aten.embedding.default(%t, %i) return (%e))";
  const auto annotated = [&](const char* json) {
    return annotate(*parse_quantizer(json, "e.json"), kTable);
  };
  CHECK_THAT(annotated(R"({"base": "embedding", "global": {"weight_bits": 4}})"),
             Contains("%t: uint8 0..15"));
  CHECK(
      annotated(R"({"base": "embedding", "global": {}, "op_type": {"embedding": null}})").empty());
  CHECK(annotated(R"({"base": "embedding", "op_type": {"embedding_bag": {}}})").empty());
}

TEST_CASE("a row has one spec for all results of an op, or a list", "[quantizers][json]") {
  constexpr const char* kChunk =
      R"(graph(%x: f32[2,4]): [%a: f32[2,2], %b: f32[2,2]] = aten.chunk.default(%x, 2, 1) return (%a, %b))";
  const auto file = [](const std::string& output) {
    return R"j({"name": "npu", "specs": {"act": {"dtype": "int8", "observer": "min_max"}},
      "patterns": [{"pattern": "chunk(x)", "inputs": {"x": "act"}, "output": )j" +
           output + "}]}";
  };
  const auto annotated = [&](const std::string& output) {
    return annotate(*parse_quantizer(file(output), "npu.json"), kChunk);
  };
  const std::string head = "%chunk [chunk(x)]: %x: int8 min_max";
  CHECK(annotated(R"({"same_as": {"edge": "x"}})") ==
        head + " => %a: same as %x -> %chunk, %b: same as %x -> %chunk\n");
  CHECK(annotated(R"([null, "act"])") == head + " => %b: int8 min_max\n");
  CHECK(annotated(R"(["act"])") == head + " => %a: int8 min_max\n");
  CHECK(annotated(R"([null, null, "act"])").empty());  // a reason in the report
  CHECK_THAT(message_of(file("[]")),
             Contains("/patterns/0/output") && Contains("a spec or null for each result"));
  CHECK_THAT(message_of(file(R"(["act", {"same_as": {"edge": "y"}}])")),
             Contains("/patterns/0/output/1") && Contains("slot of chunk(x)"));
}

TEST_CASE("a row that misses an argument of its op says so", "[quantizers][json]") {
  Graph graph = parse_graph(
      R"(graph(%x: f32[1,3,8,8], %w = param "w": f32[4,3,3,3], %b = param "b": f32[4]):
        %y: f32[1,4,6,6] = aten.conv2d.default(%x, %w, %b) return (%y))");
  const std::unique_ptr<Quantizer> quantizer = parse_quantizer(
      R"j({"name": "npu", "specs": {"act": {"dtype": "int8", "observer": "min_max"}},
        "patterns": [{"pattern": "conv2d(x, w)", "inputs": {"x": "act"}}]})j",
      "npu.json");
  Annotations annotations;
  Report report;
  quantizer->annotate(graph, annotations, report);
  CHECK(annotations.empty());
  REQUIRE(report.entries().size() == 1);
  CHECK_THAT(report.entries()[0].reason,
             Contains("row conv2d(x, w) does not match, as %y has the argument \"bias\"") &&
                 Contains("as b? if it may be absent"));
}

TEST_CASE("a JSON file takes ranges and rows on the base of xnnpack", "[quantizers][json]") {
  const JsonFile file(
      R"({"base": "xnnpack", "global": {"act_qmin": -64, "act_qmax": 63}, "op_type": {"aten.linear.default": {"weight_qmin": -8, "weight_qmax": 7}}})");
  CHECK_THAT(annotate(*make_quantizer(file.path()), kLinear),
             Contains("%x: int8 -128..127") && Contains("%w: int8 -8..7 per_tensor_symmetric"));
  const JsonFile global(R"({"base": "xnnpack", "global": {"act_qmin": -64, "act_qmax": 63}})");
  CHECK_THAT(annotate(*make_quantizer(global.path()), kLinear), Contains("%x: int8 -64..63"));
  const JsonFile reduced(R"({"base": "xnnpack", "global": {"reduce_range": true}})");
  CHECK_THAT(annotate(*make_quantizer(reduced.path()), kLinear), Contains("%x: int8 -64..63"));
}

TEST_CASE("null in a JSON file leaves the op float", "[quantizers][json]") {
  const JsonFile file(R"({"base": "xnnpack", "global": {}, "op_type": {"linear": null}})");
  CHECK(annotate(*make_quantizer(file.path()), kLinear).empty());
}

TEST_CASE("a second file adds rows", "[quantizers][json]") {
  const JsonFile file(R"({"op_type": {"linear": null}})");
  QuantizerOptions options;
  options.config = file.path();
  CHECK(annotate(*make_quantizer("xnnpack", options), kLinear).empty());
}

TEST_CASE("a second file adds rows of all parts of a composition", "[quantizers][json]") {
  const JsonFile file(R"({"op_type": {"linear": null}})");
  QuantizerOptions options;
  options.config = file.path();
  CHECK(annotate(*make_quantizer("embedding,xnnpack", options), kLinear).empty());
}

TEST_CASE("faults in a JSON file are named with their place, the value and what is allowed",
          "[quantizers][json]") {
  CHECK_THAT(message_of(R"({"base": "xnnpack", "global": {"act_qmin": "x"}})"),
             Contains(": /global/act_qmin: got \"x\", want an int"));
  CHECK_THAT(message_of(R"({"base": "xnnpack", "global": {"is_per_channel": 1}})"),
             Contains(": /global/is_per_channel: got 1, want true or false"));
  CHECK_THAT(message_of(R"({"base": "xnnpack", "global": {"qmin": 1}})"),
             Contains(": /global/qmin: unknown key, want one of is_per_channel"));
  CHECK_THAT(message_of(R"({"base": "xnnpack", "global": {"act_qmin": 5, "act_qmax": 2}})"),
             Contains(": /global: act_qmin .. act_qmax: not a range"));
  CHECK_THAT(message_of(R"({"base": "xnnpack", "global": {"is_qat": true}})"),
             Contains(": /global/is_qat: got true, want false"));
  CHECK_THAT(
      message_of(R"({"base": "acme", "global": {}})"),
      Contains(": /base: got \"acme\", want one of embedding, kv_cache, qnnpack, x86, xnnpack"));
  CHECK_THAT(
      message_of(R"({"global": {}})"),
      Contains(": /: has no \"base\", want one of embedding, kv_cache, qnnpack, x86, xnnpack; or "
               "\"compose\", or \"patterns\""));
  CHECK_THAT(message_of(R"({"base": "xnnpack"})"),
             Contains(": /: configures nothing, want at least one of global"));
  CHECK_THAT(message_of(R"({"base": "xnnpack", "module_name": {"": {}}})"),
             Contains(": /module_name/: the name is empty"));
  CHECK_THAT(message_of(R"({"base": "xnnpack", "module_name": ["head"]})"),
             Contains(": /module_name: got [\"head\"], want an object"));
  CHECK_THAT(message_of(R"({"base": "xnnpack", "module_name": {"a/b": 3}})"),
             Contains(": /module_name/a~1b: got 3, want an object of options, or null"));
  CHECK_THAT(message_of(R"({"compose": []})"),
             Contains(": /compose: got [], want a list of quantizers"));
  CHECK_THAT(
      message_of(R"({"compose": ["acme"]})"),
      Contains(
          ": /compose/0: got \"acme\", want one of embedding, kv_cache, qnnpack, x86, xnnpack, "
          "the path of a .json file, or an object"));
  CHECK_THAT(message_of(R"({"compose": [{"base": "xnnpack", "global": 1}]})"),
             Contains(": /compose/0/global: got 1, want an object of options, or null"));
  CHECK_THAT(message_of(R"({"compose": ["xnnpack"], "globl": {}})"),
             Contains(": /globl: unknown key, want one of compose, global, op_type"));
  CHECK_THAT(message_of(R"({"base": "xnnpack", "observers": {}})"),
             Contains(": /observers: \"observers\" is not in this build"));
  CHECK_THAT(message_of(R"({"base": "x86", "global": {"act_qmin": 0}})"),
             Contains(": /global/act_qmin: unknown key, want one of is_dynamic"));
  CHECK_THAT(message_of(R"({"base": "x86", "global": {"preset": "fp8"}})"),
             Contains(": /global/preset: got \"fp8\", want one of linear_dynamic_fp16"));
  CHECK_THAT(message_of(R"({"base": "embedding", "global": {"weight_bits": 5}})"),
             Contains(": /global: weight_bits: got 5, want 8, 4, 3 or 2"));
  CHECK_THAT(message_of(R"({"base": "xnnpack", "global": {}, "global": {}})"),
             Contains(": has the key \"global\" twice in one object; merge the two"));
  CHECK_THAT(message_of("[1]"), Contains(": /: got [1], want an object"));
  CHECK_THAT(message_of(""), Contains("not JSON, got a syntax error at line 1 column 1; look for"));
  CHECK_THAT(message_of("{\n  3"),
             Contains("not JSON, got a syntax error at line 2 column 3; look for"));
}

}  // namespace octet::test_json_quantizer
