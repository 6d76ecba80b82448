// Compares two programs: corresponding ops (twins), ops run on the float program's tensors
// (shadows), and errors.
#include <catch2/catch.hpp>

#include <cmath>

#include <ATen/Functions.h>

#include "annotate/accuracy/channel_space.h"
#include "annotate/calibrate/calibrate.h"
#include "annotate/compare/compare.h"
#include "annotate/compare/diagnosis.h"
#include "annotate/convert/convert.h"
#include "annotate/prepare/prepare.h"
#include "core/base/error.h"
#include "core/graph/origin.h"
#include "core/interpreter/aten_bridge.h"
#include "core/passes/fold_conv_bn.h"
#include "core/text/text.h"
#include "quantizers/registry.h"
#include "tests/tools/compare/planted.h"

namespace octet::test_compare {
using Catch::Matchers::Contains;

namespace {

BatchSource once(std::vector<c10::IValue> inputs) {
  return [inputs = std::move(inputs),
          done = false]() mutable -> std::optional<std::vector<c10::IValue>> {
    if (done) return std::nullopt;
    done = true;
    return inputs;
  };
}

void fill(Graph& graph) {
  at::Generator random = at::detail::createCPUGenerator(3);
  for (auto& [fqn, constant] : graph.constants) {
    at::Tensor data = at::randn(constant.tensor.shape(), random, at::kFloat);
    if (fqn.starts_with("v")) data = data.abs().add(0.5);
    constant.tensor = from_aten(data);
  }
}

const OpComparison& op_named(const Comparison& comparison, const std::string& name) {
  for (const OpComparison& op : comparison.ops)
    if (op.name == name) return op;
  throw std::runtime_error("no op " + name);
}

at::Tensor numbers(std::vector<int64_t> shape) {
  return at::randn(shape, at::detail::createCPUGenerator(5), at::kFloat);
}

}  // namespace

TEST_CASE("errors are sums over elements", "[compare]") {
  const at::Tensor reference = at::tensor({3.0F, 4.0F, 0.0F});
  const ErrorStats stats = compare_tensors(reference, at::tensor({3.0F, 4.0F, 0.5F}));
  CHECK(stats.sqnr_db() == Approx(20));  // 25 to 0.25
  CHECK(stats.mse() == Approx(0.25 / 3));
  CHECK(stats.largest == 0.5);
  CHECK(stats.cosine() == Approx(25 / (5 * std::sqrt(25.25))));
  CHECK(compare_tensors(reference, reference).sqnr_db() == HUGE_VAL);
  CHECK(std::isnan(ErrorStats().sqnr_db()));
}

TEST_CASE("infinities that agree count nothing, others all", "[compare]") {
  const float infinite = std::numeric_limits<float>::infinity(), none = std::nanf("");
  const at::Tensor mask = at::tensor({1.0F, -infinite, none});
  CHECK(compare_tensors(mask, mask).sqnr_db() == HUGE_VAL);
  const ErrorStats stats = compare_tensors(mask, at::tensor({1.0F, infinite, 0.0F}));
  CHECK(stats.strange == 2);
  CHECK(stats.sqnr_db() == -HUGE_VAL);
}

TEST_CASE("an op whose result is equal has no cause", "[compare]") {
  OpComparison op;
  op.accumulated = {.signal = 1, .elements = 4};
  op.isolated = {.signal = 1, .noise = 0.5, .elements = 4};  // with the other program's inputs
  CHECK(diagnose(op, nullptr).cause == Cause::kNone);
  op.accumulated.noise = 0.5;
  CHECK(diagnose(op, nullptr).cause == Cause::kOperation);
}

TEST_CASE("sums do not depend on how long the tensor is", "[compare]") {
  const at::Tensor a = numbers({3, 70001}), b = a.mul(1.01);
  const ErrorStats stats = compare_tensors(a, b);
  CHECK(stats.sqnr_db() == Approx(40).margin(1e-3));
  CHECK(stats.signal == Approx(a.to(at::kDouble).square().sum().item<double>()));
  CHECK_THROWS_WITH(compare_tensors(a, at::zeros({2, 5})), Contains("[3, 70001]"));
}

TEST_CASE("a folded batch norm is a member of its convolution", "[compare]") {
  Graph reference = parse_graph(R"(graph(%w = param "w": f32[4,3,3,3], %g = param "g": f32[4],
    %b = param "b": f32[4], %m = buffer "m": f32[4], %v = buffer "v": f32[4], %x: f32[2,3,8,8]):
  %conv: f32[2,4,6,6] = aten.conv2d.default(%x, %w)
  %norm: f32[2,4,6,6] = aten.batch_norm.default(%conv, %g, %b, %m, %v, False, 0.1, 1e-5, True)
  %relu: f32[2,4,6,6] = aten.relu.default(%norm)
  return (%relu))");
  fill(reference);
  for (bool has_handles : {true, false}) {
    const std::unique_ptr<Graph> folded = clone(reference);
    if (has_handles) set_origins(*folded);
    REQUIRE(fold_conv_bn(*folded) == 1);
    if (!has_handles)
      for (Node* node : folded->nodes()) node->metadata.clear();  // as another tool would fold
    const Comparison comparison = shadow(reference, *folded, once({numbers({2, 3, 8, 8})}));
    REQUIRE(comparison.ops.size() == 2);
    CHECK(comparison.ops[0].members == std::vector<std::string>{"conv", "norm"});
    CHECK(comparison.ops[0].accumulated.sqnr_db() > 100);
    CHECK(comparison.lonely.empty());
  }
}

TEST_CASE("equalized programs are compared in the float program's terms", "[compare]") {
  Graph reference =
      parse_graph(R"(graph(%w = param "w": f32[4,3,1,1], %w2 = param "w2": f32[5,4,1,1],
    %x: f32[2,3,8,8]):
  %conv: f32[2,4,8,8] = aten.conv2d.default(%x, %w)
  %relu: f32[2,4,8,8] = aten.relu.default(%conv)
  %last: f32[2,5,8,8] = aten.conv2d.default(%relu, %w2)
  return (%last))");
  fill(reference);
  at::Tensor first = to_aten(reference.constants.at("w").tensor);
  first.select(0, 1).mul_(50);
  const std::unique_ptr<Graph> scaled = clone(reference);
  scaled->constants.at("w").tensor = from_aten(first.clone());
  set_origins(*scaled);
  REQUIRE(equalize_layers(*scaled) > 0);
  const auto factors = channel_factors_of(*scaled->find_node("relu"));
  CHECK(factors.shape == std::vector<int64_t>{1, 4, 1, 1});
  const Comparison comparison = shadow(reference, *scaled, once({numbers({2, 3, 8, 8})}));
  REQUIRE(comparison.ops.size() == 3);
  for (const OpComparison& op : comparison.ops) {
    CHECK(op.accumulated.sqnr_db() == HUGE_VAL);  // powers of two are exact
    CHECK(op.isolated.sqnr_db() == HUGE_VAL);
  }
}

TEST_CASE("two quantized programs of one model have twins, folded or not", "[compare]") {
  const std::vector<test::Subject> subjects = test::make_subjects();
  const Graph &x86 = subjects[0].quantized, &xnnpack = subjects[1].quantized;
  const std::vector<c10::IValue>& batch = subjects[0].batches.front();
  const Comparison both = shadow(x86, xnnpack, once(batch));
  CHECK(both.lonely.empty());
  CHECK(op_named(both, "conv0").members == std::vector<std::string>{"conv0"});
  CHECK(both.outputs.sqnr_db() > 20);
}

TEST_CASE("the float program comes first", "[compare]") {
  const std::vector<test::Subject> subjects = test::make_subjects();
  CHECK_THROWS_WITH(
      shadow(subjects[0].quantized, subjects[0].reference, once(subjects[0].batches.front())),
      Catch::Contains("want the float program first; swap them"));
}

TEST_CASE("shadows take the float program's tensors", "[compare]") {
  const std::vector<test::Subject> subjects = test::make_subjects();
  const test::Subject& subject = subjects.front();
  const std::vector<c10::IValue>& batch = subject.batches.front();
  const Comparison whole = shadow(subject.reference, subject.quantized, once(batch));
  const OpComparison& last = op_named(whole, "out");
  CHECK(last.isolated.sqnr_db() > last.accumulated.sqnr_db() + 3);
  // only the input's rounding, which is a separate row, comes before the first op
  CHECK(op_named(whole, "x").isolated.sqnr_db() == op_named(whole, "x").accumulated.sqnr_db());
  CHECK(op_named(whole, "x").rounding);
  CHECK(whole.outputs.sqnr_db() == Approx(last.accumulated.sqnr_db()));
}

TEST_CASE("samples are elements of both programs, the worst among them", "[compare]") {
  const std::vector<test::Subject> subjects = test::make_subjects();
  const test::Subject& subject = subjects.front();
  const std::vector<c10::IValue>& batch = subject.batches.front();
  const Comparison whole =
      shadow(subject.reference, subject.quantized, once(batch), {.values = true});
  const OpComparison& x = op_named(whole, "x");
  REQUIRE(x.samples.size() >= 8);
  double largest = 0;
  for (const ValueSample& sample : x.samples) {
    at::Tensor element = batch.front().toTensor();
    for (const int64_t index : sample.index) element = element[index];
    CHECK(sample.reference == element.item<float>());
    CHECK(std::remainder(sample.subject, x.rounding->scale) == Approx(0).margin(1e-6));
    largest = std::max(largest, std::abs(sample.reference - sample.subject));
  }
  CHECK(largest == Approx(x.accumulated.largest));
  CHECK(op_named(shadow(subject.reference, subject.quantized, once(batch)), "x").samples.empty());
}

TEST_CASE("ops in place do not spoil what is compared", "[compare]") {
  Graph reference = parse_graph(R"(graph(%w = param "w": f32[4,4], %x: f32[8,4]):
  %first: f32[8,4] = aten.linear.default(%x, %w)
  %relu: f32[8,4] = aten.relu_.default(%first)
  %added: f32[8,4] = aten.add_.Tensor(%relu, %x)
  %last: f32[8,4] = aten.linear.default(%added, %w)
  return (%last))");
  fill(reference);
  const at::Tensor x = numbers({8, 4}), before = x.clone();
  const std::unique_ptr<Graph> same = clone(reference);
  const Comparison comparison = shadow(reference, *same, once({x}));
  REQUIRE(comparison.ops.size() == 4);
  for (const OpComparison& op : comparison.ops) {
    INFO(op.name);
    CHECK(op.accumulated.sqnr_db() == HUGE_VAL);
    CHECK(op.isolated.sqnr_db() == HUGE_VAL);
  }
  CHECK(x.equal(before));
}

TEST_CASE("what the program overwrites is not a constant", "[compare]") {
  Graph reference =
      parse_graph(R"(graph(%w = param "w": f32[4,4], %cache = buffer "cache": f32[8,4],
    %x: f32[8,4]):
  %before: f32[8,4] = aten.mul.Scalar(%cache, 2.0)
  %sum: f32[8,4] = aten.add_.Tensor(%cache, %x)
  %both: f32[8,4] = aten.add.Tensor(%sum, %before)
  %zeros: f32[8,4] = aten.zeros.default([8, 4])
  %filled: f32[8,4] = aten.add_.Tensor(%zeros, %both)
  %last: f32[8,4] = aten.linear.default(%filled, %w)
  return (%last))");
  fill(reference);
  const std::unique_ptr<Graph> same = clone(reference);
  const Comparison comparison = shadow(reference, *same, once({numbers({8, 4})}));
  for (const OpComparison& op : comparison.ops) {
    INFO(op.name);
    CHECK(op.accumulated.sqnr_db() == HUGE_VAL);
    // the shadow of a write to the cache finds it written
    if (op.name != "sum" && op.name != "before") CHECK(op.isolated.sqnr_db() == HUGE_VAL);
  }
}

TEST_CASE("programs that share the tensors of states write to their own", "[compare]") {
  Graph reference = parse_graph(R"(
    graph(%n = buffer "n": i64[], %b = buffer "cache": f32[8,4], %w = param "w": f32[4,4], %i = tensor "i": i64[2], %x: f32[2,4]):
      %y: f32[2,4] = aten.linear.default(%x, %w)
      %at: i64[2] = aten.add.Tensor(%i, %n)
      %c: f32[8,4] = aten.index_copy_.default(%b, 0, %at, %y)
      %m: i64[] = aten.add_.Tensor(%n, 2)
      %z: f32[8,4] = aten.mul.Tensor(%c, 3.0)
      return (%z))");
  fill(reference);

  reference.constants.at("n").tensor = Tensor::zeros(DType::kInt64, {});
  reference.constants.at("i").tensor =
      Tensor::from<int64_t>(DType::kInt64, {2}, std::vector<int64_t>{0, 1});
  const std::unique_ptr<Graph> same = clone(reference);
  const Comparison comparison = shadow(reference, *same, once({numbers({2, 4})}));
  CHECK(comparison.outputs.noise == 0);
  for (const OpComparison& op : comparison.ops) {
    CAPTURE(op.name);
    CHECK(op.accumulated.noise == 0);
    CHECK(op.isolated.noise == 0);
  }
}

TEST_CASE("weights are compared channel by channel as folding left them", "[compare]") {
  const std::vector<test::Subject> subjects = test::make_subjects();
  for (const test::Subject& subject : subjects) {
    INFO(subject.name);
    const std::vector<WeightComparison> weights =
        compare_weights(subject.reference, subject.quantized);
    CHECK(weights.size() >= 5);
    for (const WeightComparison& weight : weights) {
      INFO(weight.name);
      CHECK(weight.error.sqnr_db() > 35);
      CHECK(weight.error.sqnr_db() < 60);
      CHECK(weight.sqnr_db.size() == weight.least.size());
    }
  }
}

TEST_CASE("a user-defined metric is a mean over batches, and may end it", "[compare]") {
  const std::vector<test::Subject> subjects = test::make_subjects();
  const test::Subject& subject = subjects.front();
  CompareOptions options;
  options.metric = [](const at::Tensor& a, const at::Tensor& b) {
    return a.sub(b).abs().max().item<double>();
  };
  const Comparison comparison =
      shadow(subject.reference, subject.quantized, once(subject.batches.front()), options);
  const OpComparison& last = op_named(comparison, "out");
  REQUIRE(last.metric);
  CHECK(*last.metric == Approx(last.accumulated.largest));
  options.metric = [](const at::Tensor&, const at::Tensor&) -> double {
    throw Error("metric", "mine", "cannot");
  };
  CHECK_THROWS_WITH(
      shadow(subject.reference, subject.quantized, once(subject.batches.front()), options),
      Contains("cannot"));
}

TEST_CASE("each op's part of the output error is estimated by gradients", "[compare]") {
  for (const test::Subject& subject : test::make_subjects()) {
    INFO(subject.name);
    size_t next = 0;
    const BatchSource data = [&]() -> std::optional<std::vector<c10::IValue>> {
      if (next == subject.batches.size()) return std::nullopt;
      return subject.batches[next++];
    };
    const Sensitivities sensitivities =
        estimate_sensitivities(subject.reference, subject.quantized, data, {.probes = 16});
    CHECK(sensitivities.measured > 0);
    // ops' errors are nearly independent in programs that are quantized well
    CHECK(sensitivities.estimated > 0.4 * sensitivities.measured);
    CHECK(sensitivities.estimated < 2.5 * sensitivities.measured);
  }
}

TEST_CASE("the estimate is exact for a linear program", "[compare]") {
  Graph reference = parse_graph(R"(graph(%w = param "w": f32[4,4], %v = param "v": f32[1,4],
    %x: f32[1,4]):
  %first: f32[1,4] = aten.linear.default(%x, %w)
  %last: f32[1,1] = aten.linear.default(%first, %v)
  return (%last))");
  fill(reference);
  const std::unique_ptr<Graph> other = clone(reference);
  const at::Tensor weight = to_aten(reference.constants.at("w").tensor);
  other->constants.at("w").tensor = from_aten(weight.add(0.01));
  const at::Tensor x = numbers({1, 4});
  const Sensitivities sensitivities =
      estimate_sensitivities(reference, *other, once({x}), {.probes = 3});
  REQUIRE(sensitivities.ops.size() == 2);
  CHECK(sensitivities.ops[0].output_error == Approx(sensitivities.measured).epsilon(1e-3));
  CHECK(sensitivities.ops[1].output_error == 0);
}

TEST_CASE("programs of other models are refused by name", "[compare]") {
  const std::vector<test::Subject> subjects = test::make_subjects();
  Graph other = parse_graph(R"(graph(%x: f32[4,4,12,12]):
  %sine: f32[4,4,12,12] = aten.sin.default(%x)
  %cosine: f32[4,4,12,12] = aten.cos.default(%sine)
  return (%cosine))");
  const BatchSource nothing = [] { return std::nullopt; };
  CHECK_THROWS_WITH(
      shadow(subjects[0].reference, other, nothing),
      Contains("%sine") && Contains("first of 2 ops") && Contains("without a counterpart"));
  CHECK_THROWS_WITH(shadow(subjects[2].reference, subjects[0].quantized, nothing),
                    Contains("input %x") && Contains("float32[4, 4, 12, 12]"));
  CHECK_THROWS_WITH(shadow(subjects[0].reference, subjects[0].quantized, nothing),
                    Contains("holds no batches"));
}

}  // namespace octet::test_compare
