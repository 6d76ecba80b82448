// Quantizers by name and from JSON files, and the messages for files with faults.
#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>

#include "annotate/annotation_text.h"
#include "core/error.h"
#include "core/text.h"
#include "quantizers/registry.h"

namespace octet {
namespace {

using Catch::Matchers::Contains;

class JsonFile {
 public:
  explicit JsonFile(const std::string& text) {
    static int count = 0;
    path_ = std::filesystem::temp_directory_path() / ("octet_quantizer_" + std::to_string(count++) + ".json");
    std::ofstream(path_) << text;
  }
  ~JsonFile() { std::filesystem::remove(path_); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

std::string message_of(const std::string& text) {
  const JsonFile file(text);
  try {
    make_quantizer(file.path());
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::string annotate(Quantizer& quantizer, const char* text) {
  Graph graph = parse_graph(text);
  Annotations annotations;
  Report report;
  quantizer.transform_for_annotation(graph);
  quantizer.annotate(graph, annotations, report);
  return to_text(graph, annotations);
}

constexpr const char* kLinear = R"(graph(%x: f32[2,4], %w = param "fc.weight": f32[3,4]): %y: f32[2,3] = aten.linear.default(%x, %w) return (%y))";

}  // namespace

TEST_CASE("the built-in names quantize per channel", "[quantizers][registry]") {
  for (const char* name : {"xnnpack", "qnnpack"}) {
    const std::unique_ptr<Quantizer> quantizer = make_quantizer(name);
    CHECK(quantizer->name() == name);
    CHECK_THAT(annotate(*quantizer, kLinear), Contains("per_channel_symmetric axis 0 per_channel_min_max"));
  }
}

TEST_CASE("an unknown quantizer is refused with the names of this build", "[quantizers][registry]") {
  CHECK_THROWS_WITH(make_quantizer("x86"), "quantizer: \"x86\": not in this build, want qnnpack, xnnpack or the path of a .json file");
  CHECK_THROWS_WITH(make_quantizer("xnnpack,embedding"), Contains("several quantizers at once are not in this build"));
  CHECK_THROWS_WITH(make_quantizer("missing.json"), "quantizer: missing.json: cannot be read, want a JSON file; check the path");
}

TEST_CASE("options override what configurations say", "[quantizers][registry]") {
  QuantizerOptions options;
  options.is_per_channel = false;
  CHECK_THAT(annotate(*make_quantizer("xnnpack", options), kLinear), Contains("per_tensor_symmetric min_max"));
  options.is_dynamic = true;
  CHECK_THAT(annotate(*make_quantizer("xnnpack", options), kLinear), Contains("per_tensor_affine dynamic placeholder"));
}

TEST_CASE("a JSON file takes ranges and rows on the base of xnnpack", "[quantizers][json]") {
  const JsonFile file(
      R"({"base": "xnnpack", "global": {"act_qmin": -64, "act_qmax": 63}, "op_type": {"aten.linear.default": {"weight_qmin": -8, "weight_qmax": 7}}})");
  CHECK_THAT(annotate(*make_quantizer(file.path()), kLinear), Contains("%x: int8 -128..127") && Contains("%w: int8 -8..7 per_tensor_symmetric"));
  const JsonFile global(R"({"base": "xnnpack", "global": {"act_qmin": -64, "act_qmax": 63}})");
  CHECK_THAT(annotate(*make_quantizer(global.path()), kLinear), Contains("%x: int8 -64..63"));
}

TEST_CASE("null in a JSON file leaves the op float", "[quantizers][json]") {
  const JsonFile file(R"({"base": "xnnpack", "global": {}, "op_type": {"linear": null}})");
  CHECK(annotate(*make_quantizer(file.path()), kLinear).empty());
}

TEST_CASE("a second file sets rows on top", "[quantizers][json]") {
  const JsonFile file(R"({"op_type": {"linear": null}})");
  QuantizerOptions options;
  options.config = file.path();
  CHECK(annotate(*make_quantizer("xnnpack", options), kLinear).empty());
}

TEST_CASE("faults in a JSON file are named with their place, the value and what is allowed", "[quantizers][json]") {
  CHECK_THAT(message_of(R"({"base": "xnnpack", "global": {"act_qmin": "x"}})"), Contains(": /global/act_qmin: got \"x\", want an int"));
  CHECK_THAT(message_of(R"({"base": "xnnpack", "global": {"is_per_channel": 1}})"), Contains(": /global/is_per_channel: got 1, want true or false"));
  CHECK_THAT(message_of(R"({"base": "xnnpack", "global": {"qmin": 1}})"), Contains(": /global/qmin: unknown key, want one of is_per_channel"));
  CHECK_THAT(message_of(R"({"base": "xnnpack", "global": {"act_qmin": 5, "act_qmax": 2}})"),
             Contains(": /global: act_qmin .. act_qmax: not a range"));
  CHECK_THAT(message_of(R"({"base": "xnnpack", "global": {"is_qat": true}})"), Contains(": /global/is_qat: got true, want false"));
  CHECK_THAT(message_of(R"({"base": "x86", "global": {}})"), Contains(": /base: got \"x86\", want one of xnnpack, qnnpack"));
  CHECK_THAT(message_of(R"({"global": {}})"), Contains(": /: has no \"base\", want one of xnnpack, qnnpack"));
  CHECK_THAT(message_of(R"({"base": "xnnpack"})"), Contains(": /: configures nothing, want at least one of global"));
  CHECK_THAT(message_of(R"({"base": "xnnpack", "module_name": {"": {}}})"), Contains(": /module_name/: the name is empty"));
  CHECK_THAT(message_of(R"({"base": "xnnpack", "module_name": ["head"]})"), Contains(": /module_name: got [\"head\"], want an object"));
  CHECK_THAT(message_of(R"({"base": "xnnpack", "module_name": {"a/b": 3}})"),
             Contains(": /module_name/a~1b: got 3, want an object of options, or null"));
  CHECK_THAT(message_of(R"({"compose": []})"), Contains(": /compose: \"compose\" is not in this build"));
  CHECK_THAT(message_of("[1]"), Contains(": /: got [1], want an object"));
  CHECK_THAT(message_of("{"), Contains("not JSON, got a syntax error at byte"));
}

}  // namespace octet
