// What a Quantizer must not do is refused where it happens, and names the Quantizer.
#include "annotate/annotation/annotation.h"
#include "annotate/prepare/prepare.h"
#include "core/text/text.h"
#include "support/error_message.h"

// After torch, which defines a macro CHECK.
#include <catch2/catch.hpp>

namespace octet::test_quantizer_calls {
namespace {

constexpr const char* kText = R"(
graph(%x: f32[2,4]):
  %y: f32[2,4] = aten.relu.default(%x)
  %z: f32[2,4] = aten.neg.default(%y)
  return (%z))";

using Act = std::function<void(Graph&, Annotations&)>;

// Calls one function of each.
class Acting : public Quantizer {
 public:
  std::string name() const override { return "acting"; }
  void transform_for_annotation(Graph& graph) override {
    if (transform) transform(graph);
  }
  void annotate(Graph& graph, Annotations& annotations, Report&) override {
    if (act) act(graph, annotations);
  }
  void validate(const Graph&, const Annotations&) override {
    if (check) check();
  }
  void prepare_obs_or_fq_callback(const Graph&, ObserverMap&) override {
    if (callback) callback();
  }

  std::function<void(Graph&)> transform;
  Act act;
  std::function<void()> check, callback;
};

std::string message_of(Acting quantizer) {
  return test::error_message([&] {
    Report report;
    prepare_pt2e(parse_graph(kText), quantizer, report);
  });
}

std::string message_of(const Act& act) {
  Acting quantizer;
  quantizer.act = act;
  return message_of(quantizer);
}

TEST_CASE("the types that a quantizer records are checked in compat too, except for kept dtypes",
          "[annotate][quantizer]") {
  const auto message = [](const std::function<void(Graph&)>& transform) {
    Acting quantizer;
    quantizer.transform = transform;
    return test::error_message([&] {
      Report report;
      prepare_pt2e(parse_graph(R"(
graph(%x: f32[2,4], %i: i64[2,4]):
  %y: i64[2,4] = aten.neg.default(%i)
  %z: f32[2,4] = aten.neg.default(%x)
  return (%y, %z))"),
                   quantizer, report, {.compat = Compat::kTorchao});
    });
  };
  const auto insert = [](const TensorMeta& meta) {
    return [=](Graph& graph) {
      Node* z = graph.find_node("z");
      Node* made = graph.insert("aten.neg.default", {}, "made", meta, z);
      made->set_argument("self", graph.find_value("x"));
      z->replace_input(graph.find_value("x"), made->output());
    };
  };
  CHECK(message(insert(make_meta(DType::kFloat32, {2, 4}))) == "no error");
  CHECK_THAT(message(insert(make_meta(DType::kInt64, {2, 4}))),
             Catch::Matchers::Contains(
                 "says that %made is i64[2, 4], but aten.neg.default gives f32[2, 4]"));
  CHECK_THAT(message(insert(make_meta(DType::kFloat32, {2, 5}))),
             Catch::Matchers::Contains("says that %made is f32[2, 5]"));
  CHECK(message([](Graph& graph) {  // as torchao's transform does
          graph.find_node("y")->replace_input(graph.find_value("i"), graph.find_value("x"));
        }) == "no error");
}

TEST_CASE("exceptions of a quantizer name it and its function", "[annotate][quantizer]") {
  const std::string who = "quantizer \"acting\": its ";
  CHECK(message_of([](Graph&, Annotations&) { throw std::runtime_error("out of SRAM\nmore"); }) ==
        "annotate: " + who + "annotate() says: out of SRAM");
  CHECK(message_of([](Graph&, Annotations&) { throw 7; }) ==
        "annotate: " + who +
            "annotate() threw something that is not a std::exception; throw an octet::Error");
  CHECK(message_of([](Graph&, Annotations&) { throw Error("mine", "x", "no"); }) == "mine: x: no");
  Acting quantizer;
  quantizer.transform = [](Graph&) { throw std::logic_error("t"); };
  CHECK(message_of(quantizer) == "prepare: " + who + "transform_for_annotation() says: t");
  quantizer = {};
  quantizer.check = [] { throw std::logic_error("v"); };
  CHECK(message_of(quantizer) == "annotate: " + who + "validate() says: v");
  quantizer = {};
  quantizer.callback = [] { throw std::logic_error("c"); };
  CHECK(message_of(quantizer) == "prepare: " + who + "prepare_obs_or_fq_callback() says: c");
}

TEST_CASE("annotate() must not edit the graph", "[annotate][quantizer]") {
  const std::string message =
      "annotate: quantizer \"acting\": its annotate() edits the graph at %{}; edit it in "
      "transform_for_annotation()";
  const auto at = [&](const char* node) {
    return std::string(message).replace(message.find("{}"), 2, node);
  };
  CHECK(message_of([](Graph& graph, Annotations&) {
          graph.find_node("y")->set_target("aten.sigmoid.default");
        }) == at("y"));
  CHECK(message_of([](Graph& graph, Annotations&) {
          graph.insert("aten.neg.default", {{"self", graph.find_value("x")}}, "more", {},
                       graph.find_node("z"));
        }) == at("z"));
  CHECK(message_of([](Graph& graph, Annotations&) {
          graph.find_node("z")->replace_input(graph.find_value("y"), graph.find_value("x"));
        }) == at("z"));
}

TEST_CASE("annotate() takes nodes of its graph", "[annotate][quantizer]") {
  const std::string message =
      "annotate: quantizer \"acting\": its annotate() annotates a node that is not in the graph "
      "(null, or of another graph); take nodes from the graph that annotate() gets";
  CHECK(message_of([](Graph&, Annotations& annotations) { annotations[nullptr]; }) == message);
  const Graph other = parse_graph(kText);
  CHECK(message_of([&](Graph&, Annotations& annotations) { annotations[other.find_node("y")]; }) ==
        message);
}

TEST_CASE("transform_for_annotation() must leave a sound graph", "[annotate][quantizer]") {
  Acting quantizer;
  quantizer.transform = [](Graph& graph) { graph.find_node("y")->erase_argument("self"); };
  CHECK_THAT(
      message_of(quantizer),
      Catch::Matchers::StartsWith(
          "prepare: quantizer \"acting\": its transform_for_annotation() breaks the graph: "));
}

TEST_CASE("options of observers are checked with the spec", "[annotate][quantizer]") {
  const auto message = [](const std::function<void(ObserverChoice&)>& change) {
    QuantizationSpec spec;
    change(spec.observer_or_fake_quant_ctr);
    return test::error_message([&] { check_spec(spec, "%x"); });
  };
  using Catch::Matchers::Contains;
  CHECK_THAT(message([](ObserverChoice& choice) { choice.averaging_constant = 7; }),
             Contains("annotate: %x: averaging_constant") && Contains("is 7, want one above 0"));
  CHECK_THAT(message([](ObserverChoice& choice) { choice.eps = -1; }), Contains("is -1, want"));
  CHECK_THAT(message([](ObserverChoice& choice) { choice.bins = 1; }), Contains("bins is 1"));
  CHECK_THAT(message([](ObserverChoice& choice) { choice.percentile = 101; }),
             Contains("percentile is 101"));
}

}  // namespace
}  // namespace octet::test_quantizer_calls
