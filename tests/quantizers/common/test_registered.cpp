// User-defined quantizers and derive functions, by name: in lists, in JSON, with settings; and
// their names.
#include <catch2/catch.hpp>

#include "annotate/annotation/annotation.h"
#include "annotate/observers/observer.h"
#include "core/base/error.h"
#include "core/text/text.h"
#include "quantizers/compose/declared_quantizer.h"
#include "quantizers/registry.h"

namespace octet::test_registered {
namespace {

using Catch::Matchers::Contains;

constexpr const char* kTwoLinears = R"(
  graph(%x: f32[2,4], %w = param "w": f32[4,4]):
    %a: f32[2,4] = aten.linear.default(%x, %w)
    %b: f32[2,4] = aten.relu.default(%a)
    return (%b))";

DerivedQParams half_of_first(const std::vector<std::shared_ptr<Observer>>& sources) {
  return {{sources.at(0)->calculate_qparams().scale.at(0) / 2}, {0}};
}

// Annotates nothing and has no rows.
class Idle : public Quantizer {
 public:
  std::string name() const override { return "idle"; }
  void annotate(Graph&, Annotations&, Report&) override {}
};

void register_once() {
  static bool done = false;
  if (std::exchange(done, true)) return;
  register_derive_fn("half_of_first", half_of_first);
  register_quantizer("halves", [](const QuantizerOptions& options) -> std::unique_ptr<Quantizer> {
    const QuantizationSpec act{.dtype = DType::kInt8,
                               .observer_or_fake_quant_ctr = {},
                               .quant_min = -128,
                               .quant_max = 127,
                               .qscheme = QScheme::kPerTensorAffine,
                               .ch_axis = {}};
    const DerivedFrom half = {{"x"}, derived_by("half_of_first", DType::kInt8, std::nullopt)};
    return std::make_unique<DeclaredQuantizer>(
        DeclaredBackend{
            "halves", {{"linear", "linear(x, w, b?)", {{"x", act}, {"w", half}}, act}}, {}},
        options.compat);
  });
  register_quantizer("idle", [](const QuantizerOptions&) -> std::unique_ptr<Quantizer> {
    return std::make_unique<Idle>();
  });
  register_quantizer("misnamed", [](const QuantizerOptions&) -> std::unique_ptr<Quantizer> {
    return std::make_unique<Idle>();
  });
  register_quantizer("broken",
                     [](const QuantizerOptions&) { return std::unique_ptr<Quantizer>(); });
}

std::string annotated(Quantizer& quantizer) {
  Graph graph = parse_graph(kTwoLinears);
  Annotations annotations;
  Report report;
  quantizer.annotate(graph, annotations, report);
  return to_text(graph, annotations);
}

}  // namespace

TEST_CASE("a registered quantizer answers to its name, alone and in lists",
          "[quantizers][registry]") {
  register_once();
  CHECK_THAT(annotated(*make_quantizer("halves")),
             Contains("derived (half_of_first) from %x -> %a"));
  CHECK_THAT(annotated(*make_quantizer("idle,halves")), Contains("derived (half_of_first)"));
  const std::vector<std::string> names = quantizer_names();
  CHECK(std::find(names.begin(), names.end(), "halves") != names.end());
}

TEST_CASE("JSON takes a registered quantizer as a base and in compositions, with settings",
          "[quantizers][registry][json]") {
  register_once();
  CHECK_THAT(annotated(*parse_quantizer(R"({"base": "halves", "global": {}})", "f.json")),
             Contains("half_of_first"));
  CHECK(annotated(*parse_quantizer(
            R"({"base": "halves", "op_type": {"aten.linear.default": null}})", "f.json")) == "");
  CHECK_THAT(annotated(*parse_quantizer(R"({"compose": ["idle", "halves"]})", "f.json")),
             Contains("half_of_first"));
}

TEST_CASE("JSON takes a registered derive function", "[quantizers][registry][json]") {
  register_once();
  const std::string text =
      R"json({"name": "n", "specs": {"act": {"dtype": "int8", "observer": "min_max"},
      "half": {"derived_from": ["x"], "derive": "DERIVE", "dtype": "int8", "qscheme": "per_tensor_symmetric"}},
      "patterns": [{"name": "linear", "pattern": "linear(x, w)", "inputs": {"x": "act", "w": "half"}, "output": "act"}]})json";
  const auto with = [&](const std::string& name) {
    return std::string(text).replace(text.find("DERIVE"), 6, name);
  };
  CHECK_THAT(annotated(*parse_quantizer(with("half_of_first"), "f.json")),
             Contains("derived (half_of_first) from %x -> %a"));
  CHECK_THROWS_WITH(parse_quantizer(with("third"), "f.json"),
                    Contains("product_of_scales, sum_of_scales, half_of_first"));
}

TEST_CASE("a registered quantizer names itself, and its maker gives one",
          "[quantizers][registry][json]") {
  register_once();
  CHECK_THROWS_WITH(
      parse_quantizer(R"({"base": "idle", "name": "other", "global": {}})", "f.json"),
      "quantizer: \"other\": the quantizer idle names itself; leave the \"name\" out");
  CHECK_THROWS_WITH(
      make_quantizer("broken"),
      "quantizer: \"broken\": its function returned no quantizer; return one or throw an Error");
  CHECK_THROWS_WITH(make_quantizer("misnamed"),
                    "quantizer: \"misnamed\": its name() is \"idle\", want the registered name");
}

TEST_CASE("names of quantizers and derive functions are checked", "[quantizers][registry]") {
  register_once();
  const QuantizerMaker maker = [](const QuantizerOptions&) -> std::unique_ptr<Quantizer> {
    return std::make_unique<Idle>();
  };
  for (const char* name : {"", "a,b", "a/b", "a b", "a.json"})
    CHECK_THROWS_WITH(
        register_quantizer(name, maker),
        Contains("cannot be the name of a quantizer, want one without comma, slash and space"));
  for (const char* name : {"xnnpack", "idle"})
    CHECK_THROWS_WITH(
        register_quantizer(name, maker),
        std::string("quantizer: \"") + name + "\": the name is taken; choose another one");
  CHECK_THROWS_WITH(register_quantizer("none", {}),
                    "quantizer: \"none\": got no function that makes it; register one");
  CHECK_THROWS_WITH(
      register_derive_fn("product_of_scales", half_of_first),
      "prepare: derive function \"product_of_scales\": the name is taken; choose another one");
  CHECK_THROWS_WITH(register_derive_fn("none", {}),
                    "prepare: derive function \"none\": got no function; register one");
  CHECK_THROWS_WITH(derived_by("none"),
                    "annotate: derive function \"none\": unknown, want one of product_of_scales, "
                    "sum_of_scales, half_of_first");
}

}  // namespace octet::test_registered
