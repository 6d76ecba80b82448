// Embedding and composable quantizers: annotations, conflicts, and what the report says.
#include <catch2/catch.hpp>

#include "core/base/error.h"
#include "quantizers/annotate_text.h"
#include "quantizers/compose/composable_quantizer.h"
#include "quantizers/embedding/quantizer.h"
#include "quantizers/xnnpack/quantizer.h"
#include "support/error_message.h"

namespace octet::test_composable {
namespace {

using test::annotate_text;
using test::Annotated;

constexpr const char* kEmbedding =
    R"(graph(%i: i64[3], %t = param "table.weight": f32[10,4]): %e: f32[3,4] = aten.embedding.default(%t, %i) return (%e))";
constexpr const char* kBag = R"(graph(%i: i64[3], %o: i64[1], %t = param "table.weight": f32[10,4]):
  %e: f32[1,4], %a: i64[3], %b: i64[1], %m: i64[1] = aten.embedding_bag.padding_idx(%t, %i, %o, False, 0, False, None, False, None) return (%e))";
constexpr const char* kMixed =
    R"(graph(%i: i64[3], %t = param "table.weight": f32[10,4], %w = param "fc.weight": f32[2,4]):
  %e: f32[3,4] = aten.embedding.default(%t, %i)
  %y: f32[3,2] = aten.linear.default(%e, %w)
  %z: f32[3,2] = aten.sigmoid.default(%y) return (%z))";

// Changes the annotations of a graph as told, and records when it was asked.
class Scripted : public Quantizer {
 public:
  using Step = std::function<void(Graph&, Annotations&)>;
  explicit Scripted(Step step, std::string name = "scripted")
      : step_(std::move(step)), name_(std::move(name)) {}
  std::string name() const override { return name_; }
  void transform_for_annotation(Graph&) override { ++transformed; }
  void annotate(Graph& graph, Annotations& annotations, Report&) override {
    step_(graph, annotations);
  }
  void validate(const Graph&, const Annotations&) override { ++validated; }
  int transformed = 0;
  int validated = 0;

 private:
  Step step_;
  std::string name_;
};

std::unique_ptr<Quantizer> make_xnnpack() {
  std::unique_ptr<XNNPACKQuantizer> quantizer = std::make_unique<XNNPACKQuantizer>();
  quantizer->set_global(get_symmetric_quantization_config({.is_per_channel = true}));
  return quantizer;
}

template <typename... Parts>
ComposableQuantizer compose(std::unique_ptr<Parts>... parts) {
  std::vector<std::unique_ptr<Quantizer>> list;
  (list.push_back(std::move(parts)), ...);
  return ComposableQuantizer(std::move(list));
}

// xnnpack and then `step`.
std::string conflict_of(const Scripted::Step& step) {
  ComposableQuantizer quantizer = compose(make_xnnpack(), std::make_unique<Scripted>(step));
  return test::error_message([&] { annotate_text(kMixed, quantizer); });
}

}  // namespace

TEST_CASE("an embedding gets a spec for its table alone", "[quantizers][embedding]") {
  EmbeddingQuantizer quantizer;
  CHECK(annotate_text(kEmbedding, quantizer).text ==
        "%e [embedding]: %t: uint8 per_channel_affine_float_qparams axis 0 "
        "whole_zero_point_min_max\n");
  EmbeddingQuantizer peer(Compat::kTorchao);
  CHECK(annotate_text(kEmbedding, peer).text ==
        "%e [embedding]: %t: uint8 per_channel_affine_float_qparams axis 0 per_channel_min_max\n");
}

TEST_CASE(
    "an embedding bag is quantized too, with compat torchao it stays float and the report says so",
    "[quantizers][embedding]") {
  EmbeddingQuantizer quantizer;
  CHECK_THAT(annotate_text(kBag, quantizer).text,
             Catch::Matchers::Contains(
                 "[embedding_bag]: %t: uint8 per_channel_affine_float_qparams axis 0"));
  EmbeddingQuantizer peer(Compat::kTorchao);
  const Annotated annotated = annotate_text(kBag, peer);
  CHECK(annotated.text.empty());
  REQUIRE(annotated.report.entries().size() == 1);
  CHECK(annotated.report.entries().front().reason ==
        "no rule of embedding matches aten.embedding_bag.padding_idx");
}

TEST_CASE("4 bits use the range 0 to 15", "[quantizers][embedding]") {
  EmbeddingQuantizer quantizer;
  quantizer.set_global(get_embedding_quantization_config(4));
  CHECK_THAT(annotate_text(kEmbedding, quantizer).text,
             Catch::Matchers::Contains("%t: uint8 0..15 per_channel_affine_float_qparams"));
  CHECK_THROWS_WITH(get_embedding_quantization_config(5),
                    "quantizer: weight_bits: got 5, want 8, 4, 3 or 2");
}

TEST_CASE("tables of other dtypes and tables that are computed stay float with a reason",
          "[quantizers][embedding]") {
  EmbeddingQuantizer quantizer;
  const Annotated half = annotate_text(
      R"(graph(%i: i64[3], %t = param "table.weight": f16[10,4]): %e: f16[3,4] = aten.embedding.default(%t, %i) return (%e))",
      quantizer);
  CHECK(half.text.empty());
  CHECK(test::reason_for(half.report, "e") == "weight %t is float16, want float32");
  const Annotated computed = annotate_text(
      R"(graph(%i: i64[3], %t: f32[10,4]): %e: f32[3,4] = aten.embedding.default(%t, %i) return (%e))",
      quantizer);
  CHECK(test::reason_for(computed.report, "e") ==
        "weight %t is computed at run time, want a constant");
}

TEST_CASE("null for a module leaves its embedding float", "[quantizers][embedding]") {
  EmbeddingQuantizer quantizer;
  quantizer.set_module_name("table", std::nullopt);
  const Annotated annotated = annotate_text(
      kEmbedding, quantizer, {{"e", "table,table,torch.nn.modules.sparse.Embedding"}});
  CHECK(annotated.text.empty());
}

TEST_CASE("a composition annotates with each quantizer in turn and names it in the rule",
          "[quantizers][composable]") {
  ComposableQuantizer quantizer = compose(std::make_unique<EmbeddingQuantizer>(), make_xnnpack());
  CHECK(quantizer.name() == "embedding,xnnpack");
  CHECK(annotate_text(kMixed, quantizer).text ==
        "%e [embedding: embedding]: %t: uint8 per_channel_affine_float_qparams axis 0 "
        "whole_zero_point_min_max\n"
        "%y [xnnpack: linear]: %e: ACT, %w: WEIGHT => ACT\n");
}

TEST_CASE("the report of a composition has only what nobody took, with the reasons of all",
          "[quantizers][composable]") {
  ComposableQuantizer quantizer =
      compose(std::make_unique<EmbeddingQuantizer>(), make_xnnpack(), make_xnnpack());
  const Annotated annotated = annotate_text(kMixed, quantizer);
  REQUIRE(annotated.report.entries().size() == 1);
  CHECK(annotated.report.entries().front().reason ==
        "xnnpack: no rule of xnnpack matches aten.sigmoid.default; xnnpack: no rule of xnnpack "
        "matches aten.sigmoid.default");
}

TEST_CASE(
    "what another part could not quantize comes before what the mode of one part leaves float",
    "[quantizers][composable]") {
  const auto weight_only = [] {
    std::unique_ptr<XNNPACKQuantizer> quantizer = std::make_unique<XNNPACKQuantizer>();
    quantizer->set_global(get_symmetric_quantization_config(
        {.is_per_channel = true, .own = {.is_weight_only = true}}));
    return quantizer;
  };
  const auto entry_of = [](ComposableQuantizer quantizer) {
    const Annotated annotated = annotate_text(kMixed, quantizer);
    REQUIRE(annotated.report.entries().size() == 1);
    return annotated.report.entries().front().stage + ": " +
           annotated.report.entries().front().reason;
  };
  const std::string alone = "xnnpack: its configuration quantizes only weights, and it has none";
  CHECK(entry_of(compose(weight_only(), make_xnnpack())) ==
        "annotate: xnnpack: no rule of xnnpack matches aten.sigmoid.default");
  CHECK(entry_of(compose(weight_only(), weight_only())) == "mode: " + alone + "; " + alone);
}

TEST_CASE("a quantizer that changes or removes what another annotated is an error with both names",
          "[quantizers][composable]") {
  const std::string end =
      " the annotation that quantizer \"xnnpack\" (1 of 2) made; leave the op to one of them, e.g. "
      "by null for its module_name";
  const std::string changed = "quantizer: %y: quantizer \"scripted\" (2 of 2) has changed" + end;
  CHECK(conflict_of([](Graph& graph, Annotations& annotations) {
          annotations[graph.find_node("y")] = QuantizationAnnotation();
        }) == changed);
  CHECK(conflict_of([](Graph& graph, Annotations& annotations) {
          annotations[graph.find_node("y")].output_qspec.reset();
        }) == changed);
  CHECK(conflict_of([](Graph& graph, Annotations& annotations) {
          annotations[graph.find_node("y")].allow_implicit_sharing = false;
        }) == changed);
  CHECK(conflict_of([](Graph& graph, Annotations& annotations) {
          annotations[graph.find_node("y")].set_input(graph.find_value("e"),
                                                      FixedQParamsQuantizationSpec());
        }) == changed);
  CHECK(conflict_of([](Graph& graph, Annotations& annotations) {
          annotations.erase(graph.find_node("y"));
        }) == "quantizer: %y: quantizer \"scripted\" (2 of 2) has removed" + end);
  CHECK(conflict_of([](Graph&, Annotations&) {}) == "no error");
}

TEST_CASE("transforms and validations of all parts run", "[quantizers][composable]") {
  std::unique_ptr<Scripted> first = std::make_unique<Scripted>([](Graph&, Annotations&) {});
  std::unique_ptr<Scripted> second = std::make_unique<Scripted>([](Graph&, Annotations&) {});
  const Scripted& one = *first;
  const Scripted& two = *second;
  ComposableQuantizer quantizer = compose(std::move(first), std::move(second));
  Graph graph;
  Annotations annotations;
  quantizer.transform_for_annotation(graph);
  quantizer.validate(graph, annotations);
  CHECK((one.transformed == 1 && two.transformed == 1 && one.validated == 1 && two.validated == 1));
}

}  // namespace octet::test_composable
