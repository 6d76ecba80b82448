// A spec for each result of an op with several.
#include <fmt/format.h>

#include "annotate/annotation/annotation.h"
#include "annotate/annotation/sharing.h"
#include "annotate/convert/convert.h"
#include "annotate/flow_helpers.h"
#include "annotate/observed/annotation_json.h"
#include "annotate/prepare/prepare.h"
#include "core/text/text.h"
#include "support/error_message.h"

// After torch, which defines a macro CHECK.
#include <catch2/catch.hpp>

namespace octet::test_several_results {
namespace {

using Catch::Matchers::Contains;
using Json = nlohmann::ordered_json;

constexpr const char* kText = R"(
graph(%x: f32[2,4]):
  [%a: f32[2,2], %b: f32[2,2]] = aten.chunk.default(%x, 2, 1)
  %top: f32[2,1], %index: i64[2,1] = aten.topk.default(%b, 1)
  %sum: f32[2,2] = aten.add.Tensor(%a, %top)
  return (%sum, %index))";

FixedQParamsQuantizationSpec fixed(double scale) {
  FixedQParamsQuantizationSpec spec;
  spec.scale = scale;
  return spec;
}

using Act = std::function<void(Graph&, Annotations&)>;

class Acts : public Quantizer {
 public:
  explicit Acts(Act act) : act_(std::move(act)) {}
  std::string name() const override { return "acts"; }
  void annotate(Graph& graph, Annotations& annotations, Report&) override {
    act_(graph, annotations);
  }

 private:
  Act act_;
};

Graph converted(const Act& act) {
  Acts quantizer(act);
  Report report;
  ObservedGraph observed = prepare_pt2e(parse_graph(kText), quantizer, report);
  return convert_pt2e(std::move(observed), {}, report);
}

// "%b 0.5, ...": the scale of each quantize op.
std::string scales(const Graph& graph) {
  std::string text;
  for (const Node* node : graph.nodes())
    if (node->is("quantized_decomposed.quantize_per_tensor"))
      text += (text.empty() ? "%" : ", %") + node->find_input("input")->name() + " " +
              fmt::format("{}", node->float_or("scale", 0));
  return text;
}

// Each result has another spec.
void each(Graph& graph, Annotations& annotations) {
  QuantizationAnnotation& chunk = annotations[graph.find_value("a")->producer()];
  chunk.set_output(graph.find_value("a"), fixed(0.25));
  chunk.set_output(graph.find_value("b"), fixed(0.5));
}

TEST_CASE("each result of an op is quantized by its own spec", "[annotate][results]") {
  const Graph graph = converted(each);
  CHECK(scales(graph) == "%a 0.25, %b 0.5");
  CHECK(scales(converted([](Graph& graph, Annotations& annotations) {
          annotations[graph.find_value("a")->producer()].set_output(graph.find_value("b"),
                                                                    fixed(0.5));
        })) == "%b 0.5");
}

TEST_CASE("one output spec is that of each floating-point result", "[annotate][results]") {
  CHECK(scales(converted([](Graph& graph, Annotations& annotations) {
          annotations[graph.find_value("a")->producer()].output_qspec = fixed(0.25);
          annotations[graph.find_value("top")->producer()].output_qspec = fixed(0.5);
        })) == "%a 0.25, %b 0.25, %top 0.5");
}

TEST_CASE("the text and the JSON of annotations name each result", "[annotate][results]") {
  Graph graph = parse_graph(kText);
  Annotations annotations;
  each(graph, annotations);
  CHECK_THAT(to_text(graph, annotations),
             Contains("]: => %a: fixed 0.25, 0 uint8, %b: fixed 0.5, 0 uint8\n"));
  const Json json = Json::parse(annotations_to_json(graph, annotations)).at("nodes").at(0);
  CHECK(json.at("output").is_null());
  CHECK(json.at("outputs").at(1).at("tensor") == "%b");
  CHECK(json.at("outputs").at(1).at("spec").at("fixed").at("scale") == 0.5);
}

TEST_CASE("an edge shares the observer of a result", "[annotate][results]") {
  Graph graph = parse_graph(kText);
  Annotations annotations;
  each(graph, annotations);
  Node* topk = graph.find_value("top")->producer();
  annotations[topk].set_input(graph.find_value("b"), fixed(0.5));
  const SharingGroups groups = find_sharing_groups(graph, annotations);
  CHECK(groups.group_count == 2);
  CHECK(groups.find(graph.find_value("b"))->group ==
        groups.find(Edge{graph.find_value("b"), topk})->group);
}

TEST_CASE("a spec for a value that the node does not define is refused", "[annotate][results]") {
  Graph graph = parse_graph(kText);
  Annotations annotations;
  annotations[graph.find_value("a")->producer()].output_qspec_map.emplace_back(
      graph.find_value("sum"), fixed(1));
  CHECK(test::error_message([&] { find_sharing_groups(graph, annotations); }) ==
        "prepare: %chunk: annotated with a spec for %sum, which is none of its results");
}

}  // namespace
}  // namespace octet::test_several_results
