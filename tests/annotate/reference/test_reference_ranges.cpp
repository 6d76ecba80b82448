// The integer reference representation computes what the q/dq graph computes, for random ranges
// narrower than the dtype and for 16-bit floats.
#include <random>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <fmt/format.h>

#include "annotate/reference/representation.h"
#include "core/interpreter/aten_bridge.h"
#include "core/interpreter/interpreter.h"
#include "core/passes/verify.h"
#include "core/text/text.h"

// After torch, which defines a macro CHECK.
#include <catch2/catch.hpp>

namespace octet::test_reference_ranges {
namespace {

class Drawn {
 public:
  explicit Drawn(uint32_t seed) : random_(seed) {}

  // "0.02, 3, -50, 77, i8": the arguments of a quantize and its dequantize.
  std::string arguments(double scale) {
    const bool is_signed = between(0, 1) == 1;
    const int64_t lowest = is_signed ? -128 : 0, zero = between(lowest + 20, lowest + 235);
    return fmt::format("{}, {}, {}, {}, {}", scale, zero, between(lowest, zero - 10),
                       between(zero + 10, lowest + 255), is_signed ? "i8" : "u8");
  }

 private:
  int64_t between(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  std::mt19937 random_;
};

// q and dq of %from, which give %to.
std::string pair(const std::string& from, const std::string& to, const std::string& shape,
                 const std::string& arguments) {
  const std::string dtype = arguments.substr(arguments.size() - 2);
  return fmt::format(
      "  %{1}_q: {4}{2} = quantized_decomposed.quantize_per_tensor.default(%{0}, {3})\n"
      "  %{1}: f32{2} = quantized_decomposed.dequantize_per_tensor.default(%{1}_q, {3})\n",
      from, to, shape, arguments, dtype);
}

// The greatest difference of the outputs, on inputs that leave the ranges; int8 constants are
// random.
double difference(const std::string& text, Compat compat) {
  Graph graph = parse_graph(text);
  at::Generator generator = at::detail::createCPUGenerator(3);
  for (auto& [fqn, constant] : graph.constants) {
    const std::vector<int64_t> shape = constant.tensor.shape();
    const DType dtype = constant.tensor.dtype();
    if (dtype == DType::kInt8)
      constant.tensor = from_aten(at::randint(-127, 128, shape, generator, at::dtype(at::kChar)));
    if (is_floating_point(dtype))
      constant.tensor = from_aten(at::randn(shape, generator).to(to_scalar_type(dtype)));
  }
  std::vector<c10::IValue> inputs;
  for (const Value* input : graph.user_inputs())
    inputs.emplace_back(
        at::randn(input->meta->shape(), generator).mul(4).to(to_scalar_type(input->meta->dtype)));
  const std::vector<c10::IValue> want = Interpreter(graph).run(inputs);
  Report report;
  CHECK(to_reference_representation(graph, compat, report) > 0);
  verify(graph);
  const std::vector<c10::IValue> got = Interpreter(graph).run(inputs);
  double greatest = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const at::Tensor a = want[i].toTensor(), b = got[i].toTensor();
    CHECK(a.dtype() == b.dtype());
    greatest =
        std::max(greatest, a.to(at::kDouble).sub(b.to(at::kDouble)).abs().max().item<double>());
  }
  return greatest;
}

}  // namespace

TEST_CASE("reference: narrow ranges are kept by every pattern", "[annotate][reference]") {
  Drawn drawn(7);
  for (int draw = 0; draw < 12; ++draw) {
    const auto next = [&] { return drawn.arguments(0.05); };
    const std::string sums =
        "graph(%a: f32[4,6], %b: f32[4,6], %c: f32[4,6]):\n" + pair("a", "x", "[4,6]", next()) +
        pair("b", "y", "[4,6]", next()) + pair("c", "z", "[4,6]", next()) +
        "  %s: f32[4,6] = aten.add.Tensor(%x, %y)\n" + pair("s", "t", "[4,6]", next()) +
        "  %u: f32[4,6] = aten.add.Tensor(%t, %z)\n"
        "  %r: f32[4,6] = aten.relu.default(%u)\n" +
        pair("r", "v", "[4,6]", next()) + "  return (%t, %v)";
    CAPTURE(draw, sums);
    CHECK(difference(sums, Compat::kNone) <= 2 * 0.05 + 1e-5);
    const std::string linear =
        "graph(%w = buffer \"w\": i8[4,6], %p = param \"p\": f32[4], %a: f32[5,6]):\n" +
        pair("a", "x", "[5,6]", next()) +
        "  %wd: f32[4,6] = quantized_decomposed.dequantize_per_tensor.default(%w, 0.01, 0, -127, "
        "127, i8)\n"
        "  %y: f32[5,4] = aten.linear.default(%x, %wd, %p)\n" +
        pair("y", "z", "[5,4]", next()) + "  return (%z)";
    CHECK(difference(linear, Compat::kNone) <= 0.05 + 1e-5);
    const std::string pool = "graph(%a: f32[1,2,4,4]):\n" + pair("a", "x", "[1,2,4,4]", next()) +
                             "  %y: f32[1,2,2,2] = aten.max_pool2d.default(%x, [2, 2])\n" +
                             pair("y", "z", "[1,2,2,2]", next()) + "  return (%z)";
    CHECK(difference(pool, Compat::kNone) <= 0.05 + 1e-5);
  }
}

TEST_CASE("reference: torchao's form clamps a sum to the whole of int8, Octet's to its range",
          "[annotate][reference]") {
  const std::string narrow = "0.05, 0, -50, 77, i8",
                    text = "graph(%a: f32[40], %b: f32[40]):\n" + pair("a", "x", "[40]", narrow) +
                           pair("b", "y", "[40]", narrow) +
                           "  %s: f32[40] = aten.add.Tensor(%x, %y)\n" +
                           pair("s", "t", "[40]", narrow) + "  return (%t_q)";
  CHECK(difference(text, Compat::kNone) <= 1);
  CHECK(difference(text, Compat::kTorchao) > 20);
}

TEST_CASE("reference: a linear of 16-bit floats runs and gives what the q/dq graph gives",
          "[annotate][reference]") {
  for (const char* dtype : {"bf16", "f16"})
    for (const Compat compat : {Compat::kNone, Compat::kTorchao}) {
      const std::string text = fmt::format(
          R"(graph(%w = buffer "w": i8[4,6], %p = param "p": {0}[4], %a: {0}[5,6]):
  %aq: i8[5,6] = quantized_decomposed.quantize_per_tensor.default(%a, 0.05, 3, -50, 77, i8)
  %x: {0}[5,6] = quantized_decomposed.dequantize_per_tensor.default(%aq, 0.05, 3, -50, 77, i8, out_dtype={0})
  %wd: {0}[4,6] = quantized_decomposed.dequantize_per_tensor.default(%w, 0.01, 0, -127, 127, i8, out_dtype={0})
  %y: {0}[5,4] = aten.linear.default(%x, %wd, %p)
  %yq: i8[5,4] = quantized_decomposed.quantize_per_tensor.default(%y, 0.05, 3, -50, 77, i8)
  %z: {0}[5,4] = quantized_decomposed.dequantize_per_tensor.default(%yq, 0.05, 3, -50, 77, i8, out_dtype={0})
  return (%z))",
          dtype);
      CAPTURE(dtype, static_cast<int>(compat));
      // torchao's form divides in 16 bits
      CHECK(difference(text, compat) <= (compat == Compat::kNone ? 1e-6 : 0.2));
    }
}

}  // namespace octet::test_reference_ranges
