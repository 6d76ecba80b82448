// Computes sharing groups from graphs in text and explicit specs.
#include <catch2/catch.hpp>

#include "annotate/annotation/sharing.h"
#include "core/text/text.h"

namespace octet::test_sharing {
namespace {

// relu(x) twice, added.
constexpr const char* kTwoRelus = R"(
graph(%x: f32[2,3]):
  %a: f32[2,3] = aten.relu.default(%x)
  %b: f32[2,3] = aten.relu.default(%x)
  %sum: f32[2,3] = aten.add.Tensor(%a, %b)
  return (%sum))";

class Setup {
 public:
  explicit Setup(const std::string& text) : graph(parse_graph(text)) {}
  Value* value(const std::string& name) { return graph.find_value(name); }
  Node* node(const std::string& name) { return graph.find_node(name); }
  Edge edge(const std::string& from, const std::string& to) { return {value(from), node(to)}; }
  void input(const std::string& from, const std::string& to, SpecVariant spec) {
    annotations[node(to)].set_input(value(from), std::move(spec));
  }
  void output(const std::string& name, SpecVariant spec) {
    annotations[node(name)].output_qspec = std::move(spec);
  }
  SharingGroups groups(ImplicitSharing implicit = ImplicitSharing::kOn) {
    return find_sharing_groups(graph, annotations, implicit);
  }
  int group(const SharingGroups& groups, const EdgeOrNode& key) { return groups.find(key)->group; }

  Graph graph;
  Annotations annotations;
};

QuantizationSpec int8_spec() {
  QuantizationSpec spec;
  spec.qscheme = QScheme::kPerTensorAffine;
  return spec;
}

QuantizationSpec uint8_spec() {
  QuantizationSpec spec = int8_spec();
  spec.dtype = DType::kUInt8;
  return spec;
}

TEST_CASE(
    "sharing: an edge shares with the output of its producer and with other edges of the value",
    "[annotate][sharing]") {
  Setup setup(kTwoRelus);
  setup.output("a", int8_spec());
  setup.input("a", "sum", int8_spec());
  setup.input("x", "a", int8_spec());
  setup.input("x", "b", int8_spec());
  const SharingGroups groups = setup.groups();
  CHECK(groups.group_count == 2);
  CHECK(setup.group(groups, setup.edge("a", "sum")) == setup.group(groups, setup.value("a")));
  CHECK(setup.group(groups, setup.edge("x", "a")) == setup.group(groups, setup.edge("x", "b")));
}

TEST_CASE("sharing: implicit sharing can be switched off for a node and for all",
          "[annotate][sharing]") {
  Setup setup(kTwoRelus);
  setup.output("a", int8_spec());
  setup.input("a", "sum", int8_spec());
  setup.annotations[setup.node("sum")].allow_implicit_sharing = false;
  CHECK(setup.groups().group_count == 2);
  setup.annotations[setup.node("sum")].allow_implicit_sharing = true;
  CHECK(setup.groups().group_count == 1);
  CHECK(setup.groups(ImplicitSharing::kOff).group_count == 2);
}

TEST_CASE(
    "sharing: specs that differ in dtype stay apart, and observers alone do not keep them apart",
    "[annotate][sharing]") {
  Setup setup(kTwoRelus);
  setup.output("a", int8_spec());
  setup.input("a", "sum", uint8_spec());
  CHECK(setup.groups().group_count == 2);
  QuantizationSpec histogram = int8_spec();
  histogram.observer_or_fake_quant_ctr.name = "histogram";
  setup.input("a", "sum", histogram);
  CHECK(setup.groups().group_count == 1);
}

TEST_CASE("sharing: an anchor may come later in the graph", "[annotate][sharing]") {
  Setup setup(kTwoRelus);
  setup.input("x", "a", SharedQuantizationSpec{setup.value("sum")});
  setup.output("sum", int8_spec());
  const SharingGroups groups = setup.groups();
  CHECK(groups.group_count == 1);
  CHECK(std::get<QuantizationSpec>(groups.spec_of_group(0)) == int8_spec());
}

TEST_CASE("sharing: a missing anchor is named together with the path to it",
          "[annotate][sharing]") {
  Setup setup(kTwoRelus);
  setup.output("a", SharedQuantizationSpec{setup.edge("x", "a")});
  setup.output("sum", SharedQuantizationSpec{setup.value("a")});
  CHECK_THROWS_WITH(
      setup.groups(),
      Catch::Contains("prepare: %a: shares the observer of (%x -> %a), which has no spec"));
  setup.annotations.erase(setup.node("a"));
  setup.input("b", "sum", SharedQuantizationSpec{setup.value("sum")});
  CHECK_THROWS_WITH(setup.groups(),
                    Catch::Contains("prepare: %b -> %sum: shares the observer of (%a)") &&
                        Catch::Contains("through (%b -> %sum) as (%sum)"));
}

TEST_CASE("sharing: a cycle is an error that lists it", "[annotate][sharing]") {
  Setup setup(kTwoRelus);
  setup.output("a", SharedQuantizationSpec{setup.value("b")});
  setup.output("b", SharedQuantizationSpec{setup.value("a")});
  CHECK_THROWS_WITH(setup.groups(), Catch::Contains("cycle: (%a) as (%b) as (%a)"));
}

TEST_CASE("sharing: a spec for a value that is not an input of the node is an error",
          "[annotate][sharing]") {
  Setup setup(kTwoRelus);
  setup.input("x", "sum", int8_spec());
  CHECK_THROWS_WITH(setup.groups(), Catch::Contains("%x, which is not one of its inputs"));
}

TEST_CASE("sharing: fixed specs join only when scale and zero point agree", "[annotate][sharing]") {
  Setup setup(kTwoRelus);
  FixedQParamsQuantizationSpec fixed{.dtype = DType::kUInt8,
                                     .scale = 0.5,
                                     .zero_point = 0,
                                     .quant_min = {},
                                     .quant_max = {},
                                     .qscheme = {}};
  setup.output("a", fixed);
  setup.input("a", "sum", fixed);
  CHECK(setup.groups().group_count == 1);
  fixed.scale = 0.25;
  setup.input("a", "sum", fixed);
  CHECK(setup.groups().group_count == 2);
}

}  // namespace
}  // namespace octet::test_sharing
