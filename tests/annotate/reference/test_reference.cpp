// The integer reference representation: the structure of each rewrite, which computes what the q/dq
// graph computes.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sub.h>
#include <fmt/format.h>

#include "annotate/reference/representation.h"
#include "core/base/error.h"
#include "core/interpreter/aten_bridge.h"
#include "core/interpreter/interpreter.h"
#include "core/passes/verify.h"
#include "core/text/text.h"
#include "support/graph_matchers.h"

// After torch, which defines a macro CHECK.
#include <catch2/catch.hpp>

namespace octet::test_reference {
namespace {

using test::PrintsAsUntyped;

// Quantized constants get random int8 values, scales random small ones, the rest normal ones; zero
// points stay 0.
void fill_constants(Graph& graph) {
  at::Generator generator = at::detail::createCPUGenerator(3);
  for (auto& [fqn, constant] : graph.constants) {
    const std::vector<int64_t> shape = constant.tensor.shape();
    if (constant.tensor.dtype() == DType::kInt8)
      constant.tensor = from_aten(at::randint(-127, 128, shape, generator, at::dtype(at::kChar)));
    if (constant.tensor.dtype() != DType::kFloat32) continue;
    at::Tensor values = at::randn(shape, generator, at::dtype(at::kFloat));
    if (fqn.starts_with("_scale")) values = values.abs().mul(0.01).add(0.005);
    constant.tensor = from_aten(values);
  }
}

std::vector<c10::IValue> random_inputs(const Graph& graph) {
  at::Generator generator = at::detail::createCPUGenerator(5);
  std::vector<c10::IValue> inputs;
  for (const Value* input : graph.user_inputs())
    inputs.emplace_back(at::randn(input->meta->shape(), generator, at::dtype(at::kFloat)));
  return inputs;
}

int count_of(const Graph& graph, std::string_view part) {
  int count = 0;
  for (const Node* node : graph.nodes()) count += node->target().find(part) != std::string::npos;
  return count;
}

constexpr const char* kNoQdq = "quantize_per_";

// Rewrites `text`; the outputs may differ from those of the q/dq graph by `steps` of `scale`, in a
// share of `share` of the elements at most.
Graph check_rewrite(const std::string& text, Compat compat, double scale, int steps, double share) {
  Graph graph = parse_graph(text);
  fill_constants(graph);
  const std::vector<c10::IValue> inputs = random_inputs(graph);
  const at::Tensor want = Interpreter(graph).run(inputs).at(0).toTensor();
  Report report;
  CHECK(to_reference_representation(graph, compat, report) > 0);
  verify(graph);
  CHECK(to_reference_representation(graph, compat, report) == 0);
  const at::Tensor got = Interpreter(graph).run(inputs).at(0).toTensor();
  CHECK(got.sizes() == want.sizes());
  const at::Tensor off = at::sub(got, want).abs();
  CHECK(off.max().item<double>() <= scale * steps + 1e-5);
  CHECK(off.gt(1e-5).to(at::kDouble).mean().item<double>() <= share);
  return graph;
}

std::string q(const std::string& name, const std::string& input, const std::string& meta,
              const std::string& scale, int zero_point) {
  return fmt::format(
      "  %{}: i8{} = quantized_decomposed.quantize_per_tensor.default(%{}, {}, {}, -128, 127, "
      "i8)\n",
      name, meta, input, scale, zero_point);
}
std::string dq(const std::string& name, const std::string& input, const std::string& meta,
               const std::string& scale, int zero_point, int quant_min = -128) {
  return fmt::format(
      "  %{}: f32{} = quantized_decomposed.dequantize_per_tensor.default(%{}, {}, {}, {}, 127, "
      "i8)\n",
      name, meta, input, scale, zero_point, quant_min);
}
std::string dq_channels(const std::string& name, const std::string& input,
                        const std::string& meta) {
  return fmt::format(
      "  %{}: f32{} = quantized_decomposed.dequantize_per_channel.default(%{}, %s, %z, 0, -127, "
      "127, i8)\n",
      name, meta, input);
}
const std::string kChannels =
    R"(%s = buffer "_scale_0": f32[4], %z = buffer "_zero_point_0": i64[4], )";

std::string linear_text(const std::string& tail, const std::string& bias = ", %b") {
  return R"(graph(%w = buffer "w": i8[4,3], %b = param "b": f32[4], %x: f32[8,3]):
)" + q("xq", "x", "[8,3]", "0.02", 3) +
         dq("xd", "xq", "[8,3]", "0.02", 3) + dq("wd", "w", "[4,3]", "0.01", 0, -127) +
         "  %y: f32[8,4] = aten.linear.default(%xd, %wd" + bias + ")\n" + tail;
}

}  // namespace

TEST_CASE("reference: a linear becomes out_dtype arithmetic as the peer writes it",
          "[annotate][reference]") {
  const std::string text = linear_text(q("yq", "y", "[8,4]", "0.05", -4) +
                                       dq("yd", "yq", "[8,4]", "0.05", -4) + "  return (%yd)");
  const Graph graph = check_rewrite(text, Compat::kTorchao, 0.05, 2, 1);
  CHECK_THAT(graph, PrintsAsUntyped(R"(graph(%w = buffer "w", %b = param "b", %x):
  %div = aten.div.Tensor(%x, 0.02)
  %round = aten.round.default(%div)
  %to_3 = aten.to.dtype(%round, i32)
  %add_2 = aten.add.Tensor(%to_3, 3)
  %clamp_3 = aten.clamp.default(%add_2, -128, 127)
  %to_4 = aten.to.dtype(%clamp_3, i8)
  %clamp = aten.clamp.default(%to_4, -128, 127)
  %to = aten.to.dtype(%clamp, i16)
  %sub = aten.sub.Tensor(%to, 3)
  %clamp_1 = aten.clamp.default(%w, -127, 127)
  %to_1 = aten.to.dtype(%clamp_1, i16)
  %sub_1 = aten.sub.Tensor(%to_1, 0)
  %out_dtype = higher_order.out_dtype(op("torch.ops.aten.linear.default"), i32, %sub, %sub_1, None)
  %out_dtype_1 = higher_order.out_dtype(op("torch.ops.aten.div.Tensor"), i32, %b, 0.00019999999494757503)
  %add = aten.add.Tensor(%out_dtype, %out_dtype_1)
  %out_dtype_2 = higher_order.out_dtype(op("torch.ops.aten.mul.Tensor"), i32, %add, 0.003999999724328518)
  %add_1 = aten.add.Tensor(%out_dtype_2, -4)
  %clamp_2 = aten.clamp.default(%add_1, -128, 127)
  %to_2 = aten.to.dtype(%clamp_2, i8)
  %clamp_4 = aten.clamp.default(%to_2, -128, 127)
  %to_5 = aten.to.dtype(%clamp_4, f32)
  %sub_2 = aten.sub.Tensor(%to_5, -4)
  %mul = aten.mul.Tensor(%sub_2, 0.05)
  %to_6 = aten.to.dtype(%mul, f32)
  return (%to_6))"));
}

TEST_CASE("reference: the rounded form of linear equals the q/dq graph", "[annotate][reference]") {
  const std::string tail =
      q("yq", "y", "[8,4]", "0.05", -4) + dq("yd", "yq", "[8,4]", "0.05", -4) + "  return (%yd)";
  SECTION("with bias") {
    CHECK(count_of(check_rewrite(linear_text(tail), Compat::kNone, 0.05, 1, 0.05), "out_dtype") ==
          1);
  }
  SECTION("without bias") {
    CHECK(count_of(check_rewrite(linear_text(tail, ""), Compat::kNone, 0.05, 1, 0.05),
                   "out_dtype") == 1);
    CHECK(count_of(check_rewrite(linear_text(tail, ""), Compat::kTorchao, 0.05, 1, 0.05),
                   "out_dtype") == 0);
  }
  SECTION("with relu, which becomes the lower end of the clamp") {
    const std::string relu = "  %r: f32[8,4] = aten.relu.default(%y)\n" +
                             q("yq", "r", "[8,4]", "0.05", -4) +
                             dq("yd", "yq", "[8,4]", "0.05", -4);
    const Graph graph =
        check_rewrite(linear_text(relu + "  return (%yd)"), Compat::kNone, 0.05, 1, 0.05);
    CHECK(count_of(graph, "relu") == 0);
    CHECK(count_of(
              check_rewrite(linear_text(relu + "  return (%yd)"), Compat::kTorchao, 0.05, 1, 0.05),
              "relu") == 1);
  }
}

TEST_CASE("reference: weights per channel give one multiplier a channel", "[annotate][reference]") {
  const std::string text =
      "graph(%w = buffer \"w\": i8[4,3], " + kChannels + R"(%b = param "b": f32[4], %x: f32[8,3]):
)" + q("xq", "x", "[8,3]", "0.02", 3) +
      dq("xd", "xq", "[8,3]", "0.02", 3) + dq_channels("wd", "w", "[4,3]") +
      "  %y: f32[8,4] = aten.linear.default(%xd, %wd, %b)\n" + q("yq", "y", "[8,4]", "0.05", -4) +
      dq("yd", "yq", "[8,4]", "0.05", -4) + "  return (%yd)";
  CHECK(count_of(check_rewrite(text, Compat::kNone, 0.05, 1, 0.05), "out_dtype") == 1);
  CHECK(count_of(check_rewrite(text, Compat::kTorchao, 0.05, 1, 0.05), "out_dtype") == 0);
}

TEST_CASE("reference: convolutions of all ranks, padding and groups", "[annotate][reference]") {
  const auto conv = [](const std::string& weight, const std::string& x, const std::string& y,
                       const std::string& call) {
    return "graph(%w = buffer \"w\": i8" + weight + ", " + kChannels +
           "%b = param \"b\": f32[4], %x: f32" + x + "):\n" + q("xq", "x", x, "0.02", 3) +
           dq("xd", "xq", x, "0.02", 3) + dq_channels("wd", "w", weight) + "  %y: f32" + y + " = " +
           call + "\n" + q("yq", "y", y, "0.1", -4) + dq("yd", "yq", y, "0.1", -4) +
           "  return (%yd)";
  };
  const std::string two = conv("[4,3,3,3]", "[1,3,8,8]", "[1,4,4,4]",
                               "aten.conv2d.default(%xd, %wd, %b, [2, 2], [1, 1])");
  CHECK(count_of(check_rewrite(two, Compat::kNone, 0.1, 1, 0.05), "out_dtype") == 1);
  CHECK(count_of(check_rewrite(two, Compat::kTorchao, 0.1, 1, 0.05), "out_dtype") == 0);
  for (const std::string& text :
       {conv("[4,1,3,3]", "[1,4,8,8]", "[1,4,8,8]",
             "aten.conv2d.padding(%xd, %wd, %b, [1, 1], \"same\", [1, 1], 4)"),
        conv("[4,3,3]", "[1,3,8]", "[1,4,6]", "aten.conv1d.default(%xd, %wd, %b)"),
        conv("[4,3,3,3,3]", "[1,3,4,4,4]", "[1,4,2,2,2]", "aten.conv3d.default(%xd, %wd)")})
    CHECK(count_of(check_rewrite(text, Compat::kNone, 0.1, 1, 0.05), kNoQdq) == 0);
  for (const std::string& text :
       {conv("[4,3,3]", "[1,3,8]", "[1,4,4]", "aten.conv1d.default(%xd, %wd, %b, [1], [0], [2])"),
        conv("[4,1,3,3]", "[1,4,8,8]", "[1,4,8,8]",
             "aten.conv2d.padding(%xd, %wd, %b, [1, 1], \"same\", [2, 2], 4)"),
        conv("[4,3,3,3]", "[1,3,8,8]", "[1,4,4,4]",
             "aten.conv2d.default(%xd, %wd, %b, [1, 1], [0, 0], [2, 2])"),
        conv("[4,3,2,2,2]", "[1,3,4,4,4]", "[1,4,2,2,2]",
             "aten.conv3d.default(%xd, %wd, %b, [1, 1, 1], [0, 0, 0], [2, 2, 2])")}) {
    const Graph graph = check_rewrite(text, Compat::kNone, 0.1, 1, 0.05);
    CHECK(count_of(graph, "out_dtype") == 0);
    CHECK(count_of(graph, kNoQdq) == 0);
  }
}

TEST_CASE("reference: transposed convolutions add up integers", "[annotate][reference]") {
  const auto conv = [](const std::string& weights, const std::string& dequantized,
                       const std::string& call) {
    return "graph(" + weights + "%b = param \"b\": f32[4], %x: f32[1,4,5,5]):\n" +
           q("xq", "x", "[1,4,5,5]", "0.02", 3) + dq("xd", "xq", "[1,4,5,5]", "0.02", 3) +
           dequantized + "  %y: f32[1,4,7,7] = aten.conv_transpose2d.input(%xd, %wd, %b" + call +
           ")\n  %r: f32[1,4,7,7] = aten.relu.default(%y)\n" +
           q("yq", "r", "[1,4,7,7]", "0.1", -4) + dq("yd", "yq", "[1,4,7,7]", "0.1", -4) +
           "  return (%yd)";
  };
  const std::string channels =
      "  %wd: f32[4,4,3,3] = quantized_decomposed.dequantize_per_channel.default(%w, %s, %z, 1, "
      "-127, 127, i8)\n";
  const Graph graph =
      check_rewrite(conv("%w = buffer \"w\": i8[4,4,3,3], " + kChannels, channels, ""),
                    Compat::kNone, 0.1, 1, 0.05);
  CHECK(count_of(graph, "relu") == 0);
  // per tensor with groups too
  const std::string groups =
      conv("%w = buffer \"w\": i8[4,2,3,3], ", dq("wd", "w", "[4,2,3,3]", "0.01", 0, -127),
           ", [1, 1], [0, 0], [0, 0], 2");
  CHECK(count_of(check_rewrite(groups, Compat::kNone, 0.1, 1, 0.05), "relu") == 0);
  CHECK(count_of(check_rewrite(groups, Compat::kTorchao, 0.1, 1, 0.05), "relu") == 1);
}

TEST_CASE("reference: a decomposed convolution per tensor is out_dtype arithmetic in both forms",
          "[annotate][reference]") {
  const std::string text =
      R"(graph(%w = buffer "w": i8[4,3,3,3], %b = param "b": f32[4], %x: f32[1,3,6,6]):
)" + q("xq", "x", "[1,3,6,6]", "0.02", 3) +
      dq("xd", "xq", "[1,3,6,6]", "0.02", 3) + dq("wd", "w", "[4,3,3,3]", "0.01", 0, -127) +
      "  %y: f32[1,4,4,4] = aten.convolution.default(%xd, %wd, %b, [1, 1], [0, 0], [1, 1], False, "
      "[0, 0], 1)\n" +
      q("yq", "y", "[1,4,4,4]", "0.1", -4) + dq("yd", "yq", "[1,4,4,4]", "0.1", -4) +
      "  return (%yd)";
  CHECK(count_of(check_rewrite(text, Compat::kTorchao, 0.1, 2, 1), "out_dtype") == 3);
  CHECK(count_of(check_rewrite(text, Compat::kNone, 0.1, 1, 0.05), "out_dtype") == 1);
}

TEST_CASE("reference: add and add with relu", "[annotate][reference]") {
  const std::string head =
      "graph(%x: f32[4,4], %y: f32[4,4]):\n" + q("xq", "x", "[4,4]", "0.02", 3) +
      q("yq", "y", "[4,4]", "0.03", -5) + dq("xd", "xq", "[4,4]", "0.02", 3) +
      dq("yd", "yq", "[4,4]", "0.03", -5) + "  %s: f32[4,4] = aten.add.Tensor(%xd, %yd)\n";
  const std::string sum = head + q("sq", "s", "[4,4]", "0.05", 1) +
                          dq("sd", "sq", "[4,4]", "0.05", 1) + "  return (%sd)";
  CHECK(count_of(check_rewrite(sum, Compat::kTorchao, 0.05, 1, 1), "round") == 4);
  CHECK(count_of(check_rewrite(sum, Compat::kNone, 0.05, 1, 0.05), "round") == 3);
  const std::string relu = head + "  %r: f32[4,4] = aten.relu.default(%s)\n" +
                           q("sq", "r", "[4,4]", "0.05", 1) + dq("sd", "sq", "[4,4]", "0.05", 1) +
                           "  return (%sd)";
  CHECK(count_of(check_rewrite(relu, Compat::kTorchao, 0.05, 2, 1), "out_dtype") == 2);
  CHECK(count_of(check_rewrite(relu, Compat::kNone, 0.05, 1, 0.05), "relu") == 0);
}

TEST_CASE("reference: an add with a factor multiplies the second addend by it",
          "[annotate][reference]") {
  const std::string text = "graph(%x: f32[4,4]):\n" + q("xq", "x", "[4,4]", "0.02", 3) +
                           dq("xd", "xq", "[4,4]", "0.02", 3) + dq("yd", "xq", "[4,4]", "0.02", 3) +
                           "  %s: f32[4,4] = aten.add.Tensor(%xd, %yd, alpha=2)\n" +
                           q("sq", "s", "[4,4]", "0.05", 1) + dq("sd", "sq", "[4,4]", "0.05", 1) +
                           "  return (%sd)";
  const Graph graph = check_rewrite(text, Compat::kNone, 0.05, 1, 0.05);
  CHECK(graph.find_node("s") == nullptr);
  // torchao's pattern has no factor
  CHECK(check_rewrite(text, Compat::kTorchao, 0.05, 1, 0.05).find_node("s") != nullptr);
}

TEST_CASE("reference: max pooling compares integers", "[annotate][reference]") {
  const std::string text = "graph(%x: f32[1,2,4,4]):\n" + q("xq", "x", "[1,2,4,4]", "0.02", 3) +
                           dq("xd", "xq", "[1,2,4,4]", "0.02", 3) +
                           "  %m: f32[1,2,2,2] = aten.max_pool2d.default(%xd, [2, 2])\n" +
                           q("mq", "m", "[1,2,2,2]", "0.02", 3) +
                           dq("md", "mq", "[1,2,2,2]", "0.02", 3) + "  return (%md)";
  const Graph graph = check_rewrite(text, Compat::kNone, 0.02, 0, 0);
  CHECK(graph.nodes_of("aten.max_pool2d").front()->output()->meta->dtype == DType::kInt32);
  CHECK(check_rewrite(text, Compat::kTorchao, 0.02, 0, 0)
            .nodes_of("aten.max_pool2d")
            .front()
            ->output()
            ->meta->dtype == DType::kFloat32);
}

TEST_CASE("reference: max pooling with indices, as decomposed programs have it, in both forms",
          "[annotate][reference]") {
  const std::string text = "graph(%x: f32[1,2,4,4]):\n" + q("xq", "x", "[1,2,4,4]", "0.02", 3) +
                           dq("xd", "xq", "[1,2,4,4]", "0.02", 3) +
                           "  %m: f32[1,2,2,2], %i: i64[1,2,2,2] = "
                           "aten.max_pool2d_with_indices.default(%xd, [2, 2], [2, 2])\n" +
                           q("mq", "m", "[1,2,2,2]", "0.02", 3) +
                           dq("md", "mq", "[1,2,2,2]", "0.02", 3) + "  return (%md)";
  for (const Compat compat : {Compat::kTorchao, Compat::kNone}) {
    const Graph graph = check_rewrite(text, compat, 0.02, 0, 0);
    CHECK(graph.nodes_of("aten.max_pool2d_with_indices").front()->outputs().front()->meta->dtype ==
          DType::kInt32);
  }
}

TEST_CASE("reference: a dynamic linear is an integer sum and one multiplication",
          "[annotate][reference]") {
  const std::string text = R"(graph(%w = buffer "w": i8[4,3], %b = param "b": f32[4], %x: f32[8,3]):
  %s: f64[1], %z: i64[1] = quantized_decomposed.choose_qparams.tensor(%x, -128, 127, 0.000244140625, i8)
  %xq: i8[8,3] = quantized_decomposed.quantize_per_tensor.tensor(%x, %s, %z, -128, 127, i8)
  %xd: f32[8,3] = quantized_decomposed.dequantize_per_tensor.tensor(%xq, %s, %z, -128, 127, i8)
)" + dq("wd", "w", "[4,3]", "0.01", 0, -127) +
                           "  %y: f32[8,4] = aten.linear.default(%xd, %wd, %b)\n  return (%y)";
  const Graph rounded = check_rewrite(text, Compat::kNone, 0.001, 1, 1);
  CHECK(rounded.outputs().front().value.value_or_null()->meta->dtype == DType::kFloat32);
  const Graph torchao = check_rewrite(text, Compat::kTorchao, 0.001, 1, 1);
  CHECK(count_of(torchao, "out_dtype") == 2);
  CHECK(torchao.outputs().front().value.value_or_null()->meta->dtype == DType::kFloat64);
}

TEST_CASE("reference: int4 weights in groups under per-token activations are a sum of integer sums",
          "[annotate][reference]") {
  const auto text = [](const std::string& x, const std::string& scale, const std::string& block,
                       const std::string& y, const std::string& bias) {
    const std::string token = block + ", %s, %z, i8, -128, 127";
    return "graph(%w = buffer \"w\": i8[3,8], %v = buffer \"_scale0\": f32[3,2], %u = buffer "
           "\"zero\": i64[3,2], %b = param \"b\": f32[3], %x: f32" +
           x + "):\n  %s: f32" + scale + ", %z: i32" + scale +
           " = torchao.choose_qparams_affine.default(%x, \"ASYMMETRIC\", " + block +
           ", i8, -128, 127, 1e-06, f32, i32)\n  %xq: i8" + x +
           " = torchao.quantize_affine.default(%x, " + token + ")\n  %xd: f32" + x +
           " = torchao.dequantize_affine.default(%xq, " + token + ")\n" +
           "  %wd: f32[3,8] = torchao.dequantize_affine.default(%w, [1, 4], %v, %u, i8, -8, 7)\n  "
           "%y: f32" +
           y + " = aten.linear.default(%xd, %wd" + bias + ")\n  return (%y)";
  };
  // Weights that fit: check_rewrite fills int8 constants with the whole range.
  const auto check = [](const std::string& program, Compat compat, double atol) {
    Graph graph = parse_graph(program);
    fill_constants(graph);
    at::Generator generator = at::detail::createCPUGenerator(9);
    graph.constants.at("w").tensor =
        from_aten(at::randint(-8, 8, {3, 8}, generator, at::dtype(at::kChar)));
    const std::vector<c10::IValue> inputs = random_inputs(graph);
    const at::Tensor want = Interpreter(graph).run(inputs).at(0).toTensor();
    Report report;
    CHECK(to_reference_representation(graph, compat, report) == 1);
    verify(graph);
    CHECK(count_of(graph, "dequantize_affine") == 0);
    CHECK(graph.nodes_of("aten.bmm").front()->output()->meta->dtype == DType::kInt32);
    const at::Tensor got = Interpreter(graph).run(inputs).at(0).toTensor();
    CHECK(got.sizes() == want.sizes());
    CHECK(at::sub(got, want).abs().max().item<double>() < atol);
  };
  for (const std::string& bias : {std::string(", %b"), std::string()}) {
    check(text("[5,8]", "[5]", "[1, 8]", "[5,3]", bias), Compat::kNone, 1e-5);
    check(text("[2,5,8]", "[2,5]", "[1, 1, 8]", "[2,5,3]", bias), Compat::kNone, 1e-5);
  }
  check(text("[5,8]", "[5]", "[1, 8]", "[5,3]", ", %b"), Compat::kTorchao, 0.01);
}

TEST_CASE("reference: int8 weights under per-token activations are one integer sum",
          "[annotate][reference]") {
  const auto check = [](const std::string& weight) {
    const std::string text = "graph(%w = buffer \"w\": i8[4,8], " + kChannels +
                             R"(%b = param "b": f32[4], %x: f32[2,5,8]):
  %t: f32[2,5], %u: i32[2,5] = torchao.choose_qparams_affine.default(%x, "ASYMMETRIC", [1, 1, 8], i8, -128, 127, 1e-06, f32, i32)
  %xq: i8[2,5,8] = torchao.quantize_affine.default(%x, [1, 1, 8], %t, %u, i8, -128, 127)
  %xd: f32[2,5,8] = torchao.dequantize_affine.default(%xq, [1, 1, 8], %t, %u, i8, -128, 127)
)" + weight + "  %y: f32[2,5,4] = aten.linear.default(%xd, %wd, %b)\n  return (%y)";
    CHECK(count_of(check_rewrite(text, Compat::kNone, 1e-5, 1, 0.3), "dequantize") == 0);
  };
  check(dq_channels("wd", "w", "[4,8]"));
  check(dq("wd", "w", "[4,8]", "0.01", 0, -127));
}

TEST_CASE("reference: quantize and dequantize per channel", "[annotate][reference]") {
  const std::string text = "graph(" + kChannels + R"(%x: f32[2,4,3]):
  %q: i8[2,4,3] = quantized_decomposed.quantize_per_channel.default(%x, %s, %z, 1, -127, 127, i8)
  %d: f32[2,4,3] = quantized_decomposed.dequantize_per_channel.default(%q, %s, %z, 1, -127, 127, i8)
  return (%d))";
  for (const Compat compat : {Compat::kTorchao, Compat::kNone})
    CHECK(count_of(check_rewrite(text, compat, 0.05, 1, 0.05), "transpose") == 4);
}

TEST_CASE("reference: types without integer form stay and are noted", "[annotate][reference]") {
  const std::string text = R"(graph(%x: f32[2]):
  %q: u16[2] = quantized_decomposed.quantize_per_tensor.default(%x, 0.1, 5, 0, 65535, u16)
  %d: f32[2] = quantized_decomposed.dequantize_per_tensor.default(%q, 0.1, 5, 0, 65535, u16)
  return (%d))";
  Graph graph = parse_graph(text);
  Report report;
  CHECK(to_reference_representation(graph, Compat::kNone, report) == 0);
  REQUIRE(report.notes().size() == 1);
  CHECK(report.notes().front() ==
        "reference: 2 quantize and dequantize ops of uint16 stay, they have no integer form here");
  Graph unsigned_graph = parse_graph(R"(graph(%x: f32[2]):
  %q: u8[2] = quantized_decomposed.quantize_per_tensor.default(%x, 0.1, 5, 0, 255, u8)
  return (%q))");
  CHECK(to_reference_representation(unsigned_graph, Compat::kTorchao, report) == 0);
  CHECK(to_reference_representation(unsigned_graph, Compat::kNone, report) == 1);
}

TEST_CASE("reference: rewritten ops know the module of the op that they replace",
          "[annotate][reference]") {
  Graph graph = parse_graph(linear_text(q("yq", "y", "[8,4]", "0.05", -4) + "  return (%yq)"));
  graph.find_node("y")->metadata["nn_module_stack"] = "fc";
  Report report;
  to_reference_representation(graph, Compat::kNone, report);
  CHECK(graph.nodes_of("higher_order.out_dtype").front()->metadata.at("nn_module_stack") == "fc");
}

TEST_CASE("out_dtype: an op that is not registered is named", "[core][interpreter]") {
  const Graph graph = parse_graph(
      R"(graph(%x: i16[2]): %y: i32[2] = higher_order.out_dtype(op("torch.ops.no.such.default"), i32, %x) return (%y))");
  const auto message = [&] {
    try {
      Interpreter(graph).run({at::randint(0, 5, {2}, at::dtype(at::kShort))});
      return std::string("no error");
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  CHECK(message() ==
        "run: %y (higher_order.out_dtype): no.such.default is not registered; load the library "
        "that registers it with --library");
}

}  // namespace octet::test_reference
