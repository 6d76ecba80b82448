// Each misuse of the interface of quantizers is an Error of one line, and nothing crashes.
#include <limits>

#include "annotate/annotation/observer_choices.h"
#include "annotate/calibrate/calibrate.h"
#include "annotate/convert/convert.h"
#include "annotate/flow_helpers.h"
#include "annotate/observers/observer.h"
#include "annotate/prepare/prepare.h"
#include "annotate/rules/annotation_rule.h"
#include "core/base/error.h"
#include "core/text/text.h"
#include "support/error_message.h"

// After torch, which defines a macro CHECK.
#include <catch2/catch.hpp>

namespace octet::test_quantizer_misuse {
namespace {

constexpr const char* kText = R"(
graph(%w = param "l.weight": f32[8,4], %x: f32[2,4]):
  %y: f32[2,8] = aten.linear.default(%x, %w)
  %z: f32[2,8] = aten.relu.default(%y)
  %s: f32[2,8] = aten.add.Tensor(%z, %y)
  return (%s))";

// What one call of a quantizer gets.
struct Call {
  Graph& graph;
  Annotations& annotations;
  ObserverMap& observers;
  Node* node(const char* name) const { return graph.find_node(name); }
  Value* value(const char* name) const { return graph.find_value(name); }
  // Annotates the linear: a spec for its input.
  void input(SpecVariant spec) const {
    annotations[node("y")].set_input(value("x"), std::move(spec));
  }
  void output(SpecVariant spec) const { annotations[node("y")].output_qspec = std::move(spec); }
};
using Act = std::function<void(const Call&)>;

enum class When { kCheck, kTransform, kAnnotate, kValidate, kCallback };

class Misusing : public Quantizer {
 public:
  Misusing(When when, Act act, std::vector<OpaquePart> parts = {})
      : when_(when), act_(std::move(act)), parts_(std::move(parts)) {}
  std::string name() const override { return "npu"; }
  void check_model(const Graph&) const override {
    Graph graph;
    Annotations annotations;
    ObserverMap observers;
    if (when_ == When::kCheck) act_({graph, annotations, observers});
  }
  const std::vector<OpaquePart>* opaque_parts() const override {
    return parts_.empty() ? nullptr : &parts_;
  }
  void transform_for_annotation(Graph& graph) override {
    Annotations annotations;
    if (when_ == When::kTransform) act_({graph, annotations, none_});
  }
  void annotate(Graph& graph, Annotations& annotations, Report&) override {
    if (when_ == When::kCallback) {
      annotations[graph.find_node("y")].output_qspec = QuantizationSpec{};
      annotations[graph.find_node("z")].output_qspec =
          SharedQuantizationSpec{graph.find_value("y")};
    }
    if (when_ == When::kAnnotate) act_({graph, annotations, none_});
  }
  void validate(const Graph& graph, const Annotations&) override {
    Annotations annotations;
    if (when_ == When::kValidate) act_({const_cast<Graph&>(graph), annotations, none_});
  }
  void prepare_obs_or_fq_callback(const Graph& graph, ObserverMap& observers) override {
    Annotations annotations;
    if (when_ == When::kCallback) act_({const_cast<Graph&>(graph), annotations, observers});
  }

 private:
  When when_;
  Act act_;
  std::vector<OpaquePart> parts_;
  ObserverMap none_;
};

// The whole flow, so that a misuse that is found late is found too.
std::string message_of(Quantizer& quantizer) {
  Graph graph = parse_graph(kText);
  test::fill_floats(graph);
  return test::error_message([&] {
    Report report;
    ObservedGraph observed = prepare_pt2e(std::move(graph), quantizer, report);
    calibrate(observed, {test::random_inputs(observed.graph)});
    convert_pt2e(std::move(observed), {}, report);
  });
}

struct Row {
  const char* what;
  When when;
  Act act;
  const char* message;  // a part of the one line
};

void check(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    INFO(row.what);
    Misusing quantizer(row.when, row.act);
    const std::string message = message_of(quantizer);
    CHECK_THAT(message, Catch::Matchers::Contains(row.message));
    CHECK(message.find('\n') == std::string::npos);
  }
}

QuantizationSpec with(const ObserverChoice& choice) {
  QuantizationSpec spec;
  spec.observer_or_fake_quant_ctr = choice;
  return spec;
}
QuantizationSpec per_channel(std::optional<int> axis, const char* name = "per_channel_min_max") {
  return {.observer_or_fake_quant_ctr = observer(name),
          .qscheme = QScheme::kPerChannelSymmetric,
          .ch_axis = axis};
}
DerivedQuantizationSpec derived(std::vector<EdgeOrNode> from, DeriveQParamsFn derive) {
  DerivedQuantizationSpec spec;
  spec.derived_from = std::move(from);
  spec.derive_name = "mine";
  spec.derive_qparams_fn = std::move(derive);
  return spec;
}
DeriveQParamsFn gives(DerivedQParams qparams) {
  return [qparams](const std::vector<std::shared_ptr<Observer>>&) { return qparams; };
}
AffineOptions in_groups(int64_t size) {
  return {.granularity = {.kind = Granularity::Kind::kPerGroup, .group_size = size}};
}

TEST_CASE("exceptions of a quantizer are one line", "[annotate][quantizer][misuse]") {
  const Act throws = [](const Call&) { throw std::runtime_error("no SRAM\nat all"); };
  check({
      {"check", When::kCheck, throws,
       "prepare: quantizer \"npu\": its check_model() says: no SRAM"},
      {"transform", When::kTransform, throws, "its transform_for_annotation() says: no SRAM"},
      {"annotate", When::kAnnotate, throws, "its annotate() says: no SRAM"},
      {"validate", When::kValidate, throws, "its validate() says: no SRAM"},
      {"callback", When::kCallback, throws, "its prepare_obs_or_fq_callback() says: no SRAM"},
      {"an int", When::kAnnotate, [](const Call&) { throw 7; }, "is not a std::exception"},
      {"a text", When::kTransform, [](const Call&) { throw "no"; }, "is not a std::exception"},
  });
}

TEST_CASE("edits by a quantizer are refused where they happen", "[annotate][quantizer][misuse]") {
  const char* edits = "its annotate() edits the graph at %";
  const char* breaks = "its transform_for_annotation() breaks the graph: ";
  const auto insert = [](std::optional<TensorMeta> meta) {
    return [=](const Call& call) {
      Node* node = call.graph.insert("aten.neg.default", {}, "new", meta, call.node("s"));
      call.graph.replace_uses(call.value("z"), node->output());
      node->set_argument("self", call.value("z"));
    };
  };
  check({
      {"target", When::kAnnotate,
       [](const Call& c) { c.node("z")->set_target("aten.neg.default"); }, edits},
      {"literal", When::kAnnotate, [](const Call& c) { c.node("s")->set_argument("alpha", 2); },
       edits},
      {"input", When::kAnnotate,
       [](const Call& c) { c.node("z")->replace_input(c.value("y"), c.value("x")); }, edits},
      {"new node", When::kAnnotate, insert({}), edits},
      {"rename", When::kAnnotate, [](const Call& c) { c.graph.rename(*c.node("z"), "other"); },
       edits},
      {"erase", When::kAnnotate,
       [](const Call& c) {
         c.graph.replace_uses(c.value("z"), c.value("y"));
         c.graph.erase(*c.node("z"));
       },
       edits},
      {"move", When::kAnnotate,
       [](const Call& c) { c.graph.move_before(*c.node("s"), c.node("z")); }, edits},
      {"argument", When::kTransform, [](const Call& c) { c.node("z")->erase_argument("self"); },
       breaks},
      {"unknown argument", When::kTransform,
       [](const Call& c) { c.node("z")->set_argument("mood", 2); }, breaks},
      {"order", When::kTransform,
       [](const Call& c) { c.graph.move_before(*c.node("s"), c.node("y")); }, breaks},
      {"shape", When::kTransform, insert(make_meta(DType::kFloat32, {2, 9})),
       "says that %new is f32[2, 9], but aten.neg.default gives f32[2, 8]"},
      {"dtype", When::kTransform, insert(make_meta(DType::kInt64, {2, 8})),
       "says that %new is i64[2, 8], but aten.neg.default gives f32[2, 8]"},
      {"changed argument", When::kTransform,
       [](const Call& c) { c.node("z")->set_target("aten.sum.default"); },
       "says that %z is f32[2, 8], but aten.sum.default gives f32[]"},
  });
}

TEST_CASE("annotations of the wrong places are refused", "[annotate][quantizer][misuse]") {
  static const Graph other = parse_graph(kText);
  const char* not_here = "annotates a node that is not in the graph";
  const QuantizationSpec plain;
  check({
      {"null node", When::kAnnotate, [](const Call& c) { c.annotations[nullptr]; }, not_here},
      {"another graph", When::kAnnotate, [](const Call& c) { c.annotations[other.find_node("y")]; },
       not_here},
      {"null value", When::kAnnotate,
       [=](const Call& c) { c.annotations[c.node("y")].set_input(nullptr, plain); },
       "%y: annotated with a spec for %?, which is not one of its inputs"},
      {"not an input", When::kAnnotate,
       [=](const Call& c) { c.annotations[c.node("y")].set_input(c.value("z"), plain); },
       "%y: annotated with a spec for %z, which is not one of its inputs"},
      {"input of another graph", When::kAnnotate,
       [=](const Call& c) { c.annotations[c.node("y")].set_input(other.find_value("x"), plain); },
       "which is not one of its inputs"},
      {"not a result", When::kAnnotate,
       [=](const Call& c) { c.annotations[c.node("y")].set_output(c.value("x"), plain); },
       "%y: annotated with a spec for %x, which is none of its results"},
      {"null result", When::kAnnotate,
       [=](const Call& c) { c.annotations[c.node("y")].set_output(nullptr, plain); },
       "which is none of its results"},
  });
}

TEST_CASE("shared and derived specs that lead nowhere are refused",
          "[annotate][quantizer][misuse]") {
  static const Graph other = parse_graph(kText);
  const auto shared = [](EdgeOrNode with) { return SharedQuantizationSpec{with}; };
  const char* no_spec = "which has no spec";
  const char* nowhere = "a shared spec names no edge or value";
  check({
      {"null value", When::kAnnotate, [=](const Call& c) { c.output(shared(nullptr)); }, nowhere},
      {"null edge", When::kAnnotate, [=](const Call& c) { c.output(shared(Edge{})); }, nowhere},
      {"half an edge", When::kAnnotate,
       [=](const Call& c) { c.output(shared(Edge{c.value("x"), nullptr})); }, nowhere},
      {"no spec", When::kAnnotate, [=](const Call& c) { c.output(shared(c.value("x"))); }, no_spec},
      {"another graph", When::kAnnotate,
       [=](const Call& c) { c.output(shared(other.find_value("y"))); }, no_spec},
      {"itself", When::kAnnotate, [=](const Call& c) { c.output(shared(c.value("y"))); },
       "form a cycle"},
      {"circle", When::kAnnotate,
       [=](const Call& c) {
         c.output(shared(c.value("z")));
         c.annotations[c.node("z")].output_qspec = shared(c.value("y"));
       },
       "form a cycle"},
      {"from nothing", When::kAnnotate,
       [](const Call& c) { c.output(derived({}, gives({{1}, {0}}))); }, "derive"},
      {"no function", When::kAnnotate,
       [](const Call& c) { c.output(derived({Edge{c.value("x"), c.node("y")}}, {})); }, "mine"},
      {"from no spec", When::kAnnotate,
       [](const Call& c) { c.output(derived({c.value("z")}, gives({{1}, {0}}))); }, "%z"},
      {"from a null value", When::kAnnotate,
       [](const Call& c) { c.output(derived({nullptr}, gives({{1}, {0}}))); }, "%?"},
      {"from itself", When::kAnnotate,
       [](const Call& c) { c.output(derived({c.value("y")}, gives({{1}, {0}}))); }, "%y"},
  });
}

TEST_CASE("results of derive functions are checked", "[annotate][quantizer][misuse]") {
  const auto from_x = [](DeriveQParamsFn derive) {
    return [=](const Call& c) {
      c.input(QuantizationSpec{});
      c.output(derived({Edge{c.value("x"), c.node("y")}}, derive));
    };
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  check({
      {"throws", When::kAnnotate,
       from_x([](const std::vector<std::shared_ptr<Observer>>&) -> DerivedQParams {
         throw std::runtime_error("no SRAM");
       }),
       "no SRAM"},
      {"nothing", When::kAnnotate, from_x(gives({})), "\"mine\" returned"},
      {"two scales", When::kAnnotate, from_x(gives({{1, 1}, {0, 0}})),
       "\"mine\" returned 2 scales"},
      {"no zero point", When::kAnnotate, from_x(gives({{1}, {}})), "\"mine\" returned"},
      {"NaN", When::kAnnotate, from_x(gives({{nan}, {0}})), "returned the scale nan"},
      {"negative", When::kAnnotate, from_x(gives({{-1}, {0}})), "returned the scale -1"},
      {"zero point", When::kAnnotate, from_x(gives({{1}, {int64_t{1} << 40}})),
       "returned the zero point"},
  });
}

TEST_CASE("specs that contradict themselves are refused", "[annotate][quantizer][misuse]") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto input = [](SpecVariant spec) {
    return [spec = std::move(spec)](const Call& c) { c.input(spec); };
  };
  const auto fixed = [](double scale, int64_t point) {
    return FixedQParamsQuantizationSpec{.scale = scale, .zero_point = point};
  };
  QuantizationSpec groups = with(observer("affine_min_max"));
  groups.observer_or_fake_quant_ctr.affine = in_groups(3);
  QuantizationSpec no_groups = groups;
  no_groups.observer_or_fake_quant_ctr.affine = in_groups(0);
  check({
      {"eps -1", When::kAnnotate, input(with(min_max(-1))), "eps, the least scale"},
      {"eps NaN", When::kAnnotate, input(with(min_max(nan))), "eps, the least scale"},
      {"eps 1e-60", When::kAnnotate, input(with(min_max(1e-60))), "eps, the least scale"},
      {"average 7", When::kAnnotate, input(with(moving_average(7))), "averaging_constant"},
      {"average 0", When::kAnnotate, input(with(moving_average(0))), "averaging_constant"},
      {"bins 1", When::kAnnotate, input(with(histogram({}, 1))), "bins is 1"},
      {"percent 0", When::kAnnotate, input(with(percentile(0))), "percentile is 0"},
      {"percent 101", When::kAnnotate, input(with(percentile(101))), "percentile is 101"},
      {"unknown", When::kAnnotate, input(with(observer("eyes"))), "eyes"},
      {"no name", When::kAnnotate, input(with(observer(""))), "observer"},
      {"one end", When::kAnnotate, input(QuantizationSpec{.quant_min = -8}), "gives one end"},
      {"ends", When::kAnnotate, input(QuantizationSpec{.quant_min = 8, .quant_max = -8}),
       "quant_min is above quant_max"},
      {"range", When::kAnnotate, input(QuantizationSpec{.quant_min = -500, .quant_max = 500}),
       "the quant range leaves int8"},
      {"bool", When::kAnnotate, input(QuantizationSpec{.dtype = DType::kBool}), "bool"},
      {"float64", When::kAnnotate, input(QuantizationSpec{.dtype = DType::kFloat64}), "float64"},
      {"no axis", When::kAnnotate, input(per_channel({})), "has no ch_axis"},
      {"axis -1", When::kAnnotate, input(per_channel(-1)), "ch_axis is negative"},
      {"axis 5", When::kAnnotate, input(per_channel(5)), "5"},
      {"scheme", When::kAnnotate, input(per_channel(0, "histogram")), "histogram"},
      {"group of 3", When::kAnnotate, input(groups), "3"},
      {"group of 0", When::kAnnotate, input(no_groups), "group"},
      {"scale 0", When::kAnnotate, input(fixed(0, 0)), "scale"},
      {"scale NaN", When::kAnnotate, input(fixed(nan, 0)), "scale"},
      {"scale < 0", When::kAnnotate, input(fixed(-1, 0)), "scale"},
      {"zero point", When::kAnnotate, input(fixed(1, 1000)), "1000"},
  });
}

TEST_CASE("observers that the callback gives are checked", "[annotate][quantizer][misuse]") {
  check({
      {"another place", When::kCallback,
       [](const Call& c) {
         c.observers.emplace_back(c.value("x"), make_observer(observer_args(QuantizationSpec{})));
       },
       "set an observer in a place without a spec"},
      {"a null place", When::kCallback,
       [](const Call& c) {
         c.observers.emplace_back(static_cast<Value*>(nullptr),
                                  make_observer(observer_args(QuantizationSpec{})));
       },
       "%?: quantizer \"npu\" set an observer in a place without a spec"},
  });
}

TEST_CASE("opaque parts that contradict themselves are refused", "[annotate][quantizer][misuse]") {
  struct PartRow {
    OpaquePart part;
    const char* message;
  };
  const auto quantizer = std::make_shared<Misusing>(When::kCheck, [](const Call&) {});
  const auto hook = [](std::function<void(Graph&, Island&)> act) {
    return OpaquePart{.op = "relu", .float_to_observed = std::move(act)};
  };
  const std::vector<PartRow> rows = {
      {{}, "names nothing"},
      {{.module = "a", .op = "relu"}, "names several kinds of ops"},
      {{.module = "nowhere"}, "covers no op of the program"},
      {{.module_type = "my.Nowhere"}, "covers no op of the program"},
      {{.op = "relu", .quantizer = quantizer, .is_recorded = true},
       "is recorded and has a quantizer"},
      {{.op = "relu", .quantized_inputs = {{7, QuantizationSpec{}}}}, "7"},
      {{.op = "relu", .quantized_outputs = {{7, QuantizationSpec{}}}}, "7"},
      {{.op = "relu", .quantized_inputs = {{0, SameAsInput{0}}}}, "want an earlier one"},
      {{.op = "relu", .quantized_inputs = {{0, QuantizationSpec{.quant_min = 9, .quant_max = 1}}}},
       "quant_min is above quant_max"},
      {hook([](Graph&, Island&) { throw std::runtime_error("no SRAM"); }), "says: no SRAM"},
      {hook([](Graph&, Island& island) { island.nodes.front()->erase_argument("self"); }),
       "its float_to_observed() breaks the graph"},
  };
  for (const PartRow& row : rows) {
    INFO(row.message);
    Misusing outer(When::kAnnotate, [](const Call& c) { c.output(QuantizationSpec{}); },
                   {row.part});
    const std::string message = message_of(outer);
    CHECK_THAT(message, Catch::Matchers::Contains(row.message));
    CHECK(message.find('\n') == std::string::npos);
  }
}

TEST_CASE("rows of a table that are wrong are refused", "[annotate][quantizer][misuse]") {
  const auto message = [](const AnnotationRule& rule) {
    return test::error_message([&] {
      Graph graph = parse_graph(kText);
      Annotations annotations;
      RuleState state;
      const QuantizationConfig config;
      annotate_by_rules(
          graph, {&rule, 1},
          [&](const AnnotationRule&, const Match&) -> ConfigChoice { return {&config, {}}; },
          annotations, state);
    });
  };
  using Catch::Matchers::Contains;
  CHECK_THAT(message({"linear", "linear(x, w", {}, LeaveFloat{}}), Contains("column"));
  CHECK_THAT(message({"linear", "", {}, LeaveFloat{}}), Contains("pattern"));
  CHECK_THAT(message({"linear", "linear(x, w)", {{"q", QuantizationSpec{}}}, LeaveFloat{}}),
             Contains("\"q\""));
  CHECK_THAT(message({"linear", "linear(x, w)", {}, same_as("q")}), Contains("\"q\""));
}

}  // namespace
}  // namespace octet::test_quantizer_misuse
