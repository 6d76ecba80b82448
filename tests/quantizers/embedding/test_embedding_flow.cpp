// The accuracy of tables at 8 and 4 bits, as figures: Octet's default choices and torchao's.
#include <cmath>
#include <random>

#include <ATen/ops/arange.h>
#include <ATen/ops/square.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/sum.h>

#include "annotate/calibrate/calibrate.h"
#include "annotate/convert/convert.h"
#include "annotate/prepare/prepare.h"
#include "core/interpreter/interpreter.h"
#include "core/text/text.h"
#include "quantizers/registry.h"

// After torch, which defines a macro CHECK.
#include <catch2/catch.hpp>

namespace octet::test_embedding_flow {
namespace {

constexpr int64_t kRows = 200;
constexpr int64_t kColumns = 64;

constexpr const char* kEmbedding = R"(graph(%i: i64[200], %t = param "t": f32[200,64]):
  %e: f32[200,64] = aten.embedding.default(%t, %i) return (%e))";
constexpr const char* kBag = R"(graph(%i: i64[200], %o: i64[200], %t = param "t": f32[200,64]):
  %e: f32[200,64], %a: i64[200], %b: i64[200], %m: i64[200] = aten.embedding_bag.padding_idx(%t, %i, %o, False, 0, False, None, False, -1)
  return (%e))";

Graph with_table(const char* text, float deviation) {
  Graph graph = parse_graph(text);
  std::mt19937 random(0);
  std::normal_distribution<float> normal(0.0f, deviation);
  std::vector<float> table(kRows * kColumns);
  for (float& element : table) element = normal(random);
  graph.constants.at("t").tensor = Tensor::from<float>(DType::kFloat32, {kRows, kColumns}, table);
  return graph;
}

std::vector<c10::IValue> inputs_of(const Graph& graph) {
  std::vector<c10::IValue> inputs;
  for (const char* name : {"i", "o"})
    if (graph.find_value(name)) inputs.emplace_back(at::arange(kRows, at::kLong));
  return inputs;
}

// Signal to noise in dB of the quantized rows.
double sqnr(const char* text, float deviation, const QuantizerOptions& options) {
  const Graph graph = with_table(text, deviation);
  const std::vector<c10::IValue> inputs = inputs_of(graph);
  const at::Tensor want = Interpreter(graph).run(inputs).at(0).toTensor();
  Report report;
  PrepareOptions prepare_options;
  prepare_options.compat = options.compat;
  ObservedGraph observed = prepare_pt2e(
      with_table(text, deviation), *make_quantizer("embedding", options), report, prepare_options);
  observe_constants(observed);
  CHECK_FALSE(needs_calibration(observed));
  const Graph quantized = convert_pt2e(std::move(observed), {.compat = options.compat}, report);
  const at::Tensor got = Interpreter(quantized).run(inputs).at(0).toTensor();
  return 10 * std::log10(want.square().sum().item<double>() /
                         want.sub(got).square().sum().item<double>());
}

}  // namespace

TEST_CASE("a table keeps 45 dB with 8 bits and 20 dB with 4, without data",
          "[quantizers][embedding]") {
  CHECK(sqnr(kEmbedding, 1.0f, {}) > 45);
  CHECK(sqnr(kEmbedding, 1.0f, {.weight_bits = 4}) > 20);
}

TEST_CASE("zero points without fraction keep 6 dB more than the peer's",
          "[quantizers][embedding]") {
  CHECK(sqnr(kEmbedding, 1.0f, {}) > sqnr(kEmbedding, 1.0f, {.compat = Compat::kTorchao}) + 6);
}

TEST_CASE("a table of small numbers keeps its values, with the peer's least scale it is lost",
          "[quantizers][embedding]") {
  CHECK(sqnr(kEmbedding, 0.005f, {}) > 45);
  CHECK(sqnr(kEmbedding, 0.005f, {.compat = Compat::kTorchao}) < 0);
}

TEST_CASE("an embedding bag runs on its quantized table", "[quantizers][embedding]") {
  CHECK(sqnr(kBag, 1.0f, {}) > 45);
}

}  // namespace octet::test_embedding_flow
