// The parts of Hugging Face's transformers become few ops: RMS norms, attention masks, rotary
// embeddings.
#include <cstring>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include "backends/conformance/program_builder.h"
#include "backends/registry.h"
#include "backends/runtime/session.h"
#include "backends/runtime/state_memory.h"
#include "core/interpreter/aten_bridge.h"
#include "core/interpreter/interpreter.h"
#include "lowering/lower.h"
#include "tests/lowering/lowering_helpers.h"

namespace octet::test_transformer {
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

namespace {

// %y of x f32[2,5,8] and the weight, by lines in between.
Graph norm_graph(const std::string& lines) {
  return make_graph("graph(%w = param \"w\": f32[8], %x: f32[2,5,8]):\n" + lines + "  return (%y)");
}

const char* const kLlama = R"(  %square: f32[2,5,8] = aten.pow.Tensor_Scalar(%x, 2)
  %mean: f32[2,5,1] = aten.mean.dim(%square, [-1], True)
  %sum: f32[2,5,1] = aten.add.Tensor(%mean, 1e-06)
  %inverse: f32[2,5,1] = aten.rsqrt.default(%sum)
  %norm: f32[2,5,8] = aten.mul.Tensor(%x, %inverse)
  %y: f32[2,5,8] = aten.mul.Tensor(%w, %norm)
)";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("the formula of an RMS norm becomes one op", "[lowering][transformer]") {
  const std::string forms[] = {
      kLlama,
      replaced(kLlama, "aten.pow.Tensor_Scalar(%x, 2)", "aten.mul.Tensor(%x, %x)"),
      replaced(kLlama, "aten.rsqrt.default(%sum)", "aten.pow.Tensor_Scalar(%sum, -0.5)"),
      replaced(kLlama, "aten.mul.Tensor(%x, %inverse)", "aten.mul.Tensor(%inverse, %x)"),
      replaced(replaced(kLlama, "aten.rsqrt.default(%sum)", "aten.sqrt.default(%sum)"),
               "aten.mul.Tensor(%x, %inverse)", "aten.div.Tensor(%x, %inverse)"),
      "  %y: f32[2,5,8] = aten.rms_norm.default(%x, [8], %w, 1e-06)\n",
  };
  for (const std::string& form : forms) {
    CAPTURE(form);
    const Graph graph = norm_graph(form);
    const std::string text = lowered(graph);
    CHECK_THAT(text, StartsWith("y: f32[2,5,8] = rms_norm(x f32[2,5,8], w f32[8]) eps=") &&
                         EndsWith(" normalized_dims=1\nreturn y\n"));
    CHECK(compare_with_interpreter(graph).greatest < 1e-5);
    CHECK(compare_with_interpreter(graph, false).greatest < 1e-5);
  }
}

TEST_CASE("what is not an RMS norm is unchanged", "[lowering][transformer]") {
  const std::string forms[] = {
      replaced(kLlama, "pow.Tensor_Scalar(%x, 2)", "pow.Tensor_Scalar(%x, 3)"),
      replaced(replaced(replaced(kLlama, "[-1], True", "[1], True"), "%mean: f32[2,5,1]",
                        "%mean: f32[2,1,8]"),
               "%sum: f32[2,5,1]", "%sum: f32[2,1,8]"),
      replaced(kLlama, "aten.mul.Tensor(%x, %inverse)", "aten.mul.Tensor(%square, %inverse)"),
      replaced(kLlama, "aten.add.Tensor(%mean, 1e-06)", "aten.add.Tensor(%mean, %mean)"),
      replaced(kLlama, "aten.add.Tensor(%mean, 1e-06)", "aten.add.Tensor(%mean, 1e-06, alpha=2)"),
  };
  for (std::string form : forms) {
    if (form.find("%sum: f32[2,1,8]") != std::string::npos)
      form = replaced(form, "%inverse: f32[2,5,1]", "%inverse: f32[2,1,8]");
    CAPTURE(form);
    CHECK_THAT(lowered(norm_graph(form)), !Contains("rms_norm"));
  }
}

TEST_CASE("a weight of another shape stays a product after the norm", "[lowering][transformer]") {
  const Graph graph = make_graph("graph(%w = param \"w\": f32[5,1], %x: f32[2,5,8]):\n" +
                                 std::string(kLlama) + "  return (%y)");
  CHECK_THAT(lowered(graph), Contains("rms_norm(x f32[2,5,8]) eps") && Contains(" = mul("));
  CHECK(compare_with_interpreter(graph).greatest < 1e-5);
}

namespace {

const char* const kGelu = R"(graph(%x: f32[2,8]):
  %half: f32[2,8] = aten.mul.Tensor(%x, 0.5)
  %cube: f32[2,8] = aten.pow.Tensor_Scalar(%x, 3.0)
  %small: f32[2,8] = aten.mul.Tensor(%cube, 0.044715)
  %sum: f32[2,8] = aten.add.Tensor(%x, %small)
  %inside: f32[2,8] = aten.mul.Tensor(%sum, 0.7978845608028654)
  %tanh: f32[2,8] = aten.tanh.default(%inside)
  %gate: f32[2,8] = aten.add.Tensor(%tanh, 1.0)
  %y: f32[2,8] = aten.mul.Tensor(%half, %gate)
  return (%y))";

}  // namespace

TEST_CASE("the formula of the GELU by tanh becomes one op", "[lowering][transformer]") {
  const Graph graph = make_graph(kGelu);
  CHECK(lowered(graph) == "y: f32[2,8] = unary(x f32[2,8]) fn=gelu_tanh\nreturn y\n");
  CHECK(compare_with_interpreter(graph).greatest < 1e-6);
  const Graph other = make_graph(replaced(kGelu, "Tensor(%x, 0.5)", "Tensor(%x, 0.4)"));
  CHECK_THAT(lowered(other), !Contains("gelu"));
  CHECK(compare_with_interpreter(other).greatest < 1e-6);
}

TEST_CASE("the formula of the GELU by erf becomes one op", "[lowering][transformer]") {
  const std::string text = R"(graph(%x: f32[2,8]):
  %half: f32[2,8] = aten.mul.Tensor(%x, 0.5)
  %ratio: f32[2,8] = aten.div.Tensor(%x, 1.4142135623730951)
  %erf: f32[2,8] = aten.erf.default(%ratio)
  %gate: f32[2,8] = aten.add.Tensor(%erf, 1.0)
  %y: f32[2,8] = aten.mul.Tensor(%half, %gate)
  return (%y))";
  for (const std::string& given : {text, replaced(text, "div.Tensor(%x, 1.4142135623730951)",
                                                  "mul.Tensor(%x, 0.7071067811865475)")}) {
    const Graph graph = make_graph(given);
    CHECK(lowered(graph) == "y: f32[2,8] = unary(x f32[2,8]) fn=gelu\nreturn y\n");
    CHECK(compare_with_interpreter(graph).greatest < 1e-6);
  }
  const Graph other = make_graph(replaced(text, "1.4142135623730951", "1.5"));
  CHECK_THAT(lowered(other), !Contains("gelu"));
}

namespace {

const char* const kRotary =
    R"(graph(%x: f32[2,3,5,8], %c: f32[1,1,5,8], %s: f32[1,1,5,8]):
  %straight: f32[2,3,5,8] = aten.mul.Tensor(%x, %c)
  %low: f32[2,3,5,4] = aten.slice.Tensor(%x, 3, 0, 4)
  %high: f32[2,3,5,4] = aten.slice.Tensor(%x, 3, 4, 9223372036854775807)
  %negative: f32[2,3,5,4] = aten.neg.default(%high)
  %turned: f32[2,3,5,8] = aten.cat.default([%negative, %low], -1)
  %across: f32[2,3,5,8] = aten.mul.Tensor(%turned, %s)
  %y: f32[2,3,5,8] = aten.add.Tensor(%straight, %across)
  return (%y))";

}  // namespace

TEST_CASE("rotary embeddings become one op", "[lowering][transformer]") {
  for (const std::string& text :
       {std::string(kRotary),
        replaced(kRotary, "Tensor(%straight, %across)", "Tensor(%across, %straight)")}) {
    const Graph graph = make_graph(text);
    CHECK(lowered(graph) ==
          "y: f32[2,3,5,8] = rotary(x f32[2,3,5,8], c f32[1,1,5,8], s f32[1,1,5,8])\n"
          "return y\n");
    CHECK(compare_with_interpreter(graph).greatest < 1e-6);
    CHECK(compare_with_interpreter(graph, false).greatest < 1e-6);
  }
}

TEST_CASE("another rotation is not fused into a rotary embedding", "[lowering][transformer]") {
  for (const std::string& text :
       {replaced(kRotary, "[%negative, %low]", "[%low, %negative]"),
        replaced(kRotary, "aten.neg.default(%high)", "aten.abs.default(%high)"),
        replaced(kRotary, "Tensor(%x, %c)", "Tensor(%turned, %c)"),
        replaced(kRotary, "Tensor(%straight, %across)", "Tensor(%straight, %across, alpha=2)"),
        replaced(kRotary, "(%x, 3, 4, 9223372036854775807)", "(%x, 3, 0, 4)")}) {
    CAPTURE(text);
    const Graph graph = make_graph(
        text.find("%turned, %c") == std::string::npos
            ? text
            : replaced(
                  replaced(text, "  %straight: f32[2,3,5,8] = aten.mul.Tensor(%turned, %c)\n", ""),
                  "  %across",
                  "  %straight: f32[2,3,5,8] = aten.mul.Tensor(%turned, %c)\n  %across"));
    CHECK_THAT(lowered(graph), !Contains("rotary"));
    CHECK(compare_with_interpreter(graph).greatest < 1e-6);
  }
}

namespace {

// Two attentions with one mask that is an input.
const char* const kMasked =
    R"(graph(%q: f32[2,3,4,8], %k: f32[2,3,5,8], %v: f32[2,3,5,8], %m: b8[2,1,4,5]):
  %a: f32[2,3,4,8] = aten.scaled_dot_product_attention.default(%q, %k, %v, %m)
  %b: f32[2,3,4,8] = aten.scaled_dot_product_attention.default(%a, %k, %v, %m)
  return (%b))";

}  // namespace

TEST_CASE("attentions share one additive form of a boolean mask", "[lowering][transformer]") {
  const std::string text = lowered(make_graph(kMasked));
  CAPTURE(text);
  CHECK_THAT(text, Contains("f32[2,1,4,5] = where(m b8[2,1,4,5]"));
  CHECK(text.find("= where(") == text.rfind("= where("));
  CHECK_THAT(text, Contains("masked=true"));
}

TEST_CASE("a query that sees nothing gives zeros, as in PyTorch", "[lowering][transformer]") {
  const Graph graph = make_graph(kMasked);
  Tensor mask = Tensor::zeros(DType::kBool, {2, 1, 4, 5});
  for (int64_t i = 0; i < mask.numel(); ++i) mask.data<bool>()[i] = i / 5 % 4 != 1 && i % 3 != 0;
  const std::vector<Tensor> inputs = {random_floats({2, 3, 4, 8}, -1, 1, 1),
                                      random_floats({2, 3, 5, 8}, -1, 1, 2),
                                      random_floats({2, 3, 5, 8}, -1, 1, 3), mask};
  std::vector<c10::IValue> values;
  for (const Tensor& input : inputs) values.emplace_back(to_aten(input));
  const at::Tensor want = Interpreter(graph).run(values)[0].toTensor();
  Session session(reference_program(graph));
  const at::Tensor got = to_aten(session.run(inputs)[0]);
  CHECK(want.select(2, 1).abs().max().item<double>() == 0);
  CHECK((want - got).abs().max().item<double>() < 1e-6);
}

TEST_CASE("attention with dropout is refused as other dropout in training mode is",
          "[lowering][transformer]") {
  CHECK_THAT(error_of(make_graph(R"(graph(%q: f32[1,2,4,8]):
  %y: f32[1,2,4,8] = aten.scaled_dot_product_attention.default(%q, %q, %q, None, 0.9)
  return (%y))")),
             Contains("with dropout, in training mode; export in eval mode"));
}

// ---- attention over a cache

namespace {

// Four heads of queries over a cache with two, as transformers' StaticCache has it.
const char* const kCached =
    R"(graph(%b_k = buffer "k": f32[1,2,8,4], %b_v = buffer "v": f32[1,2,8,4], %q: f32[1,4,1,4], %x: f32[1,2,1,4], %at: i64[1], %mask: f32[1,1,1,8]):
  %k: f32[1,2,8,4] = aten.index_copy_.default(%b_k, 2, %at, %x)
  %v: f32[1,2,8,4] = aten.index_copy_.default(%b_v, 2, %at, %x)
  %k5: f32[1,2,1,8,4] = aten.unsqueeze.default(%k, 2)
  %kw: f32[1,2,2,8,4] = aten.expand.default(%k5, [1,2,2,8,4])
  %kh: f32[1,4,8,4] = aten.reshape.default(%kw, [1,4,8,4])
  %v5: f32[1,2,1,8,4] = aten.unsqueeze.default(%v, 2)
  %vw: f32[1,2,2,8,4] = aten.expand.default(%v5, [1,2,2,8,4])
  %vh: f32[1,4,8,4] = aten.reshape.default(%vw, [1,4,8,4])
  %y: f32[1,4,1,4] = aten.scaled_dot_product_attention.default(%q, %kh, %vh, %mask, scale=0.5)
  return (%y))";

// Its attention written out, with a softcap of 20.
const char* const kWritten =
    R"(  %kt: f32[1,4,4,8] = aten.transpose.int(%kh, 2, 3)
  %dots: f32[1,4,1,8] = aten.matmul.default(%q, %kt)
  %scores: f32[1,4,1,8] = aten.mul.Tensor(%dots, 0.5)
  %ratio: f32[1,4,1,8] = aten.div.Tensor(%scores, 20.0)
  %soft: f32[1,4,1,8] = aten.tanh.default(%ratio)
  %capped: f32[1,4,1,8] = aten.mul.Tensor(%soft, 20.0)
  %seen: f32[1,4,1,8] = aten.add.Tensor(%capped, %mask)
  %p: f32[1,4,1,8] = aten.softmax.int(%seen, -1)
  %y: f32[1,4,1,4] = aten.matmul.default(%p, %vh)
)";

std::string written_out() {
  const std::string text = kCached;
  const size_t begin = text.find("  %y:"), end = text.find("  return");
  return text.substr(0, begin) + kWritten + text.substr(end);
}

}  // namespace

TEST_CASE("attention over a cache becomes one op that copies no heads", "[lowering][transformer]") {
  CHECK_THAT(lowered(make_graph(kCached)),
             Contains("y: f32[1,4,1,4] = attention(q f32[1,4,1,4], k f32[1,2,8,4], "
                      "v f32[1,2,8,4], mask f32[1,1,1,8]) masked=true scale=0.5") &&
                 !Contains("expand"));
  CHECK(greatest_in_four_runs(kCached) < 1e-5);
  CHECK_THAT(lowered(make_graph(written_out())),
             Contains(" scale=0.5 softcap=20") && !Contains("tanh"));
  CHECK(greatest_in_four_runs(written_out()) < 1e-5);
  for (const char* backend : {"onednn", "xnnpack"})
    for (const std::string& text : {std::string(kCached), written_out()})
      CHECK(compare_on_backend(make_graph(text), backend, true, 4).greatest < 1e-5);
}

TEST_CASE("what is not attention over a cache is unchanged", "[lowering][transformer]") {
  const std::string text = written_out();
  const std::string forms[] = {
      replaced(text, "return (%y)", "return (%y, %p)"),
      replaced(text, "return (%y)", "return (%y, %capped)"),
      replaced(text, "softmax.int(%seen, -1)", "softmax.int(%seen, 1)"),
      replaced(text, "div.Tensor(%scores, 20.0)", "div.Tensor(%scores, %mask)"),
      replaced(text, "add.Tensor(%capped, %mask)", "add.Tensor(%capped, %mask, alpha=2)"),
      replaced(text, "aten.matmul.default(%p, %vh)", "aten.matmul.default(%p, %qv)"),
  };
  for (std::string form : forms) {
    if (form.find("%qv") != std::string::npos)
      form = replaced(form, "  %kt:", "  %qv: f32[1,4,8,4] = aten.mul.Tensor(%vh, %vh)\n  %kt:");
    CAPTURE(form);
    CHECK_THAT(lowered(make_graph(form)), !Contains("= attention("));
  }
  // heads repeated one after the other, not each next to itself
  std::string tiled = replaced(text, "%k5: f32[1,2,1,8,4] = aten.unsqueeze.default(%k, 2)",
                               "%k5: f32[1,1,2,8,4] = aten.unsqueeze.default(%k, 1)");
  CHECK_THAT(lowered(make_graph(tiled)), !Contains("= attention("));
  CHECK(greatest_in_four_runs(tiled) < 1e-5);
}

namespace {

// kCached with rows that are rounded to int8, as the quantizer kv_cache has them.
std::string rounded() {
  std::string text = kCached;
  for (const char* name : {"k", "v"}) {
    const std::string write = fmt::format(
        "  %{}: f32[1,2,8,4] = aten.index_copy_.default(%b_{}, 2, %at, %x)\n", name, name);
    const std::string rounds = fmt::format(
        "  %{0}_s: f32[1,2,1,1], %{0}_z: f32[1,2,1,1] = "
        "quantized_decomposed.choose_qparams_per_token.default(%x, i8)\n"
        "  %{0}_q: i8[1,2,1,4] = quantized_decomposed.quantize_per_token.default(%x, %{0}_s, "
        "%{0}_z, -128, 127, i8)\n"
        "  %{0}_d: f32[1,2,1,4] = quantized_decomposed.dequantize_per_token.default(%{0}_q, "
        "%{0}_s, %{0}_z, -128, 127, i8, f32)\n"
        "  %{0}: f32[1,2,8,4] = aten.index_copy_.default(%b_{0}, 2, %at, %{0}_d)\n",
        name);
    text = replaced(text, write, rounds);
  }
  return text;
}

// Caches start as zeros.
Graph cached_graph(const std::string& text) {
  Graph graph = make_graph(text);
  for (const GraphInput& input : graph.inputs())
    if (const Tensor* start = graph.find_constant(input.value))
      std::memset(start->raw(), 0, start->nbytes());
  return graph;
}

}  // namespace

TEST_CASE("a cache of rounded rows keeps their integers and scales", "[lowering][transformer]") {
  const std::string text = rounded();
  CHECK_THAT(lowered(cached_graph(text)),
             Contains("attention(q f32[1,4,1,4], k_q i8[1,2,8,4], v_q i8[1,2,8,4], mask "
                      "f32[1,1,1,8], k_scale f32[1,2,8,1], v_scale f32[1,2,8,1])") &&
                 Contains("= quantize_dynamic(x f32[1,2,1,4])") &&
                 !Contains("= fake_quantize_dynamic(") && !Contains("= mul("));
  CHECK(compare_with_interpreter(cached_graph(text), true, 4).greatest < 1e-5);
  const Program program = reference_program(cached_graph(text));
  size_t bytes = 0;
  for (const ProgramState& state : program.states) bytes += program.tensor(state.value).nbytes();
  CHECK(bytes == 2 * 16 * (4 + sizeof(float)));
  for (const char* backend : {"onednn", "xnnpack"}) {
    CHECK(compare_on_backend(cached_graph(text), backend, true, 4).greatest < 1e-5);
    Report report;
    const Program on_backend = lower(cached_graph(text), *make_support(backend), {}, report);
    CHECK(is_written_in_place(on_backend, on_backend.states[2]));
  }
  // read as a whole
  const std::string read = replaced(text, "return (%y)", "return (%y, %k)");
  CHECK_THAT(lowered(cached_graph(read)), Contains("attention(") && Contains("= mul("));
  CHECK(compare_with_interpreter(cached_graph(read), true, 4).greatest < 1e-5);
}

TEST_CASE("a cache that integers cannot keep exactly stays float", "[lowering][transformer]") {
  const std::string text = rounded();
  const std::string forms[] = {
      replaced(replaced(text, "return (%y)", "return (%y, %old)"),
               "  %k_s:", "  %old: f32[1,2,8,4] = aten.clone.default(%b_k)\n  %k_s:"),
      replaced(text, "%k_d)", "%x)"),
      replaced(text, "choose_qparams_per_token.default(%x, i8)",
               "choose_qparams_per_token_asymmetric.default(%x, i8)"),
  };
  for (const std::string& form : forms) {
    CAPTURE(form);
    CHECK_THAT(lowered(cached_graph(form)), Contains("k f32[1,2,8,4]"));
    CHECK(compare_with_interpreter(cached_graph(form), true, 4).greatest < 1e-5);
  }
}

}  // namespace octet::test_transformer
