// Graphs exported with dynamic dimensions: torch's expressions, lowering, other sizes compared with
// the interpreter, and refusals.
#include <cmath>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include "annotate/calibrate/calibrate.h"
#include "annotate/convert/convert.h"
#include "backends/conformance/program_builder.h"
#include "backends/registry.h"
#include "backends/runtime/session.h"
#include "core/base/error.h"
#include "core/interpreter/aten_bridge.h"
#include "core/interpreter/interpreter.h"
#include "core/pt2/reader.h"
#include "lowering/import/size.h"
#include "lowering/lower.h"
#include "lowering/program/specialize.h"
#include "quantizers/xnnpack/quantizer.h"
#include "tests/lowering/lowering_helpers.h"
#include "tests/support/error_message.h"
#include "tests/support/golden.h"

namespace octet::test_open_sizes {
using Catch::Matchers::Contains;
using Catch::Matchers::Equals;
using Catch::Matchers::StartsWith;

namespace {

std::string symbol(const std::string& name) {
  return "Symbol('" + name + "', positive=True, integer=True)";
}
std::string size(const std::string& expression, int64_t hint) {
  return "{\"" + expression + "\": " + std::to_string(hint) + "}";
}

std::string parsed(const std::string& expression) {
  try {
    return parse_size(expression, "%x").to_text();
  } catch (const Error& error) {
    return error.what();
  }
}

std::string replaced(std::string text, const std::string& word, const std::string& with) {
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + with.size()))
    text.replace(at, word.size(), with);
  return text;
}

// B and S are symbols with the hints 2 and 4.
Graph open_graph(const std::string& text) {
  const std::string with_batch = replaced(text, "<B>", size(symbol("s0"), 2));
  Graph graph = make_graph(replaced(with_batch, "<S>", size(symbol("s1"), 4)));
  graph.range_constraints["s0"] = {1, 64};
  graph.range_constraints["s1"] = {2, 32};
  return graph;
}

// The greatest difference of the lowered program from the interpreter on inputs of the given
// shapes; i64 inputs hold 0 and 1.
double difference(Session& session, const Graph& graph,
                  const std::vector<std::vector<int64_t>>& shapes) {
  std::vector<Tensor> inputs;
  std::vector<c10::IValue> values;
  const std::vector<Value*> wanted = graph.user_inputs();
  for (size_t i = 0; i < shapes.size(); ++i) {
    const DType dtype = wanted[i]->meta->dtype;
    inputs.push_back(dtype == DType::kFloat32
                         ? random_floats(shapes[i], -1, 1, static_cast<uint32_t>(7 + i))
                         : random_integers(dtype, shapes[i], 7, 0, 1));
    values.emplace_back(to_aten(inputs.back()));
  }
  const at::Tensor want = Interpreter(graph).run(values)[0].toTensor().to(at::kDouble).contiguous();
  const at::Tensor got = to_aten(session.run(inputs)[0]).to(at::kDouble).contiguous();
  if (want.sizes() != got.sizes()) return INFINITY;
  double greatest = 0;
  for (int64_t i = 0; i < want.numel(); ++i)
    greatest = std::max(greatest, std::abs(want.data_ptr<double>()[i] - got.data_ptr<double>()[i]));
  return greatest;
}

Program lowered_for(const Graph& graph, const std::string& backend) {
  Report report;
  return lower(graph, *make_support(backend), {}, report);
}

// conv, relu, pool, linear of int8, with the batch open.
const char* const kQuantizedNet =
    R"graph(graph(%w = buffer "w": i8[4,3,3,3], %s = buffer "w_scale": f32[4], %z = buffer "w_zero": i64[4], %v = buffer "v": i8[5,4], %x: f32[<B>,3,6,6]):
  %q: i8[<B>,3,6,6] = quantized_decomposed.quantize_per_tensor.default(%x, 0.01, 3, -128, 127, i8)
  %dq: f32[<B>,3,6,6] = quantized_decomposed.dequantize_per_tensor.default(%q, 0.01, 3, -128, 127, i8)
  %dw: f32[4,3,3,3] = quantized_decomposed.dequantize_per_channel.default(%w, %s, %z, 0, -127, 127, i8)
  %conv: f32[<B>,4,4,4] = aten.conv2d.default(%dq, %dw, None)
  %relu: f32[<B>,4,4,4] = aten.relu.default(%conv)
  %q2: i8[<B>,4,4,4] = quantized_decomposed.quantize_per_tensor.default(%relu, 0.02, -128, -128, 127, i8)
  %dq2: f32[<B>,4,4,4] = quantized_decomposed.dequantize_per_tensor.default(%q2, 0.02, -128, -128, 127, i8)
  %pool: f32[<B>,4,1,1] = aten.adaptive_avg_pool2d.default(%dq2, [1, 1])
  %q3: i8[<B>,4,1,1] = quantized_decomposed.quantize_per_tensor.default(%pool, 0.02, -128, -128, 127, i8)
  %dq3: f32[<B>,4,1,1] = quantized_decomposed.dequantize_per_tensor.default(%q3, 0.02, -128, -128, 127, i8)
  %flat: f32[<B>,4] = aten.flatten.using_ints(%dq3, 1)
  %dv: f32[5,4] = quantized_decomposed.dequantize_per_tensor.default(%v, 0.01, 0, -127, 127, i8)
  %linear: f32[<B>,5] = aten.linear.default(%flat, %dv, None)
  %q4: i8[<B>,5] = quantized_decomposed.quantize_per_tensor.default(%linear, 0.05, 0, -128, 127, i8)
  %dq4: f32[<B>,5] = quantized_decomposed.dequantize_per_tensor.default(%q4, 0.05, 0, -128, 127, i8)
  return (%dq4))graph";

}  // namespace

TEST_CASE("torch's expressions of sizes become formulas", "[lowering][open]") {
  CHECK(parsed(symbol("s77")) == "s77");
  CHECK(parsed("Add(FloorDiv(Add(" + symbol("s8") + ", Integer(-1)), Integer(2)), Integer(1))") ==
        "(s8 + -1)//2 + 1");
  CHECK(parsed("Mul(Integer(3), " + symbol("a") + ", " + symbol("b") + ")") == "(3*a)*b");
  CHECK(parsed("Max(Integer(1), Mod(" + symbol("a") + ", Integer(4)))") == "max(1, a%4)");
  CHECK(parsed("Pow(" + symbol("a") + ", Integer(2))") == "a*a");
  CHECK_THAT(
      parsed("Rational(1, 2)"),
      Equals("lower: %x: its size Rational(1, 2) has Rational, want one of Add, Mul, "
             "FloorDiv, CleanDiv, Mod, PythonMod, "
             "Max, Min, Pow; export with a size that is computed in another way, or a fixed one"));
  for (const char* broken : {"", "Add(", "Add(Integer(1)", "Integer()", "Symbol(", "Symbol('a",
                             "Integer(1))", "Pow(Integer(2), Integer(99))"})
    CHECK_THAT(parsed(broken), Contains("lower: %x: its size"));
  std::string deep = "Integer(1)";
  for (int i = 0; i < 100; ++i) deep = "Add(" + deep + ", Integer(1))";
  CHECK_THAT(parsed(deep), Contains("is nested deeper than 64"));
}

TEST_CASE("an open batch becomes a symbol of the program", "[lowering][open]") {
  const Program program = lowered_for(open_graph(kQuantizedNet), "reference");
  CHECK_THAT(to_text(program),
             Contains("q2: i8[s0,4,4,4] = conv(q i8[s0,3,6,6]") &&
                 Contains("symbol s0 (dimension 0 of x) from 1 to 64, lowered at 2"));
  CHECK_THAT(explain(program),
             StartsWith("symbol s0 (dimension 0 of x) from 1 to 64") && Contains("i8[s0,3,6,6]"));
  CHECK(specialize(program, {{"s0", 5}}).tensor(program.inputs[0]).shape ==
        std::vector<int64_t>{5, 3, 6, 6});
}

TEST_CASE(
    "a program with an open batch computes what the interpreter computes at every batch, on every "
    "backend",
    "[lowering][open]") {
  const Graph graph = open_graph(kQuantizedNet);
  for (const std::string& backend : backend_names()) {
    Session session(lowered_for(graph, backend));
    for (int64_t batch : {1, 2, 3, 8, 64}) {
      INFO(backend << " " << batch);
      CHECK(difference(session, graph, {{batch, 3, 6, 6}}) < 0.0501);
    }
  }
}

TEST_CASE("the oracle's programs with a dynamic batch run at every batch on every backend",
          "[lowering][open][golden]") {
  for (const char* name : {"dyn_dynamic_batch_mlp", "xnn_dynamic_batch_cnn"})
    for (const test::GoldenCase& golden : test::golden_cases(name)) {
      SymmetricOptions options;
      options.is_per_channel = true;
      options.is_dynamic = golden.name().starts_with("dyn");
      XNNPACKQuantizer quantizer;
      quantizer.set_global(get_symmetric_quantization_config(options));
      Report report;
      ObservedGraph observed =
          prepare_pt2e(read_pt2(golden.folder / "model.pt2"), quantizer, report);
      calibrate(observed, golden.calibration());
      const Graph graph = convert_pt2e(std::move(observed), {}, report);
      std::vector<int64_t> shape = graph.user_inputs()[0]->meta->shape();
      for (const std::string& backend : backend_names()) {
        const Program program = lowered_for(graph, backend);
        const std::optional<TensorQParams>& last =
            program.tensor(program.ops.back().inputs[0]).qparams;
        Session session(program);
        for (int64_t batch : {1, 2, 3, 8, 64}) {
          shape[0] = batch;
          INFO(golden.name() << " " << backend << " " << batch);
          CHECK(difference(session, graph, {shape}) <=
                (last ? 2.001 * static_cast<double>(last->scale[0]) : 1e-5));
        }
        shape[0] = 65;
        CHECK_THAT(test::error_message([&] { session.run({random_floats(shape)}); }),
                   Contains("dimension 0 is 65, want 1 to 64"));
      }
    }
}

TEST_CASE("positions, splits, stacks and attention follow an open sequence", "[lowering][open]") {
  const Graph graph = open_graph(
      R"graph(graph(%p = buffer "positions": f32[1,32,6], %x: f32[<B>,<S>,6], %m: f32[<B>,<S>]):
  %b0: int{"Symbol('s0', positive=True, integer=True)": 2} = aten.sym_size.int(%x, 0)
  %n: int{"Symbol('s1', positive=True, integer=True)": 4} = aten.sym_size.int(%x, 1)
  %first: f32[1,<S>,6] = aten.slice.Tensor(%p, 1, 0, %n)
  %sum: f32[<B>,<S>,6] = aten.add.Tensor(%x, %first)
  %heads: f32[<B>,<S>,2,3] = aten.view.default(%sum, [%b0, %n, 2, 3])
  %q: f32[<B>,2,<S>,3] = aten.transpose.int(%heads, 1, 2)
  %mask: f32[<B>,1,1,<S>] = aten.reshape.default(%m, [%b0, 1, 1, %n])
  %all: f32[<B>,2,<S>,<S>] = aten.expand.default(%mask, [%b0, 2, %n, %n])
  %sdpa: f32[<B>,2,<S>,3] = aten.scaled_dot_product_attention.default(%q, %q, %q, %all)
  %causal: f32[<B>,2,<S>,3] = aten.scaled_dot_product_attention.default(%q, %q, %q, None, 0.0, True)
  %both: f32[<B>,2,<S>,3] = aten.add.Tensor(%sdpa, %causal)
  %ones: f32[<B>,2,<S>,3] = aten.ones_like.default(%both)
  %more: f32[<B>,2,<S>,3] = aten.add.Tensor(%both, %ones)
  [%a: f32[<B>,1,<S>,3], %b: f32[<B>,1,<S>,3]] = aten.split.Tensor(%more, 1, 1)
  %last: f32[<B>,1,3] = aten.select.int(%a, 2, -1)
  %tail: f32[<B>,1,1,3] = aten.slice.Tensor(%b, 2, -1, 9223372036854775807)
  %flat: f32[<B>,1,3] = aten.squeeze.dim(%tail, 2)
  %y: f32[2,<B>,1,3] = aten.stack.default([%last, %flat])
  return (%y))graph");
  Session session(lowered_for(graph, "reference"));
  for (int64_t batch : {1, 3})
    for (int64_t length : {4, 2, 32, 7})
      CHECK(difference(session, graph, {{batch, length, 6}, {batch, length}}) < 1e-5);
}

TEST_CASE("numbers up to an open size are the first of a constant", "[lowering][open]") {
  const Graph graph = open_graph(R"graph(graph(%t = param "table": f32[40,3], %x: f32[<B>,<S>,3]):
  %n: int{"Symbol('s1', positive=True, integer=True)": 4} = aten.sym_size.int(%x, 1)
  %p: i64[<S>] = aten.arange.default(%n)
  %e: f32[<S>,3] = aten.embedding.default(%t, %p)
  %y: f32[<B>,<S>,3] = aten.add.Tensor(%x, %e)
  return (%y))graph");
  Session session(lowered_for(graph, "reference"));
  for (int64_t length : {4, 32, 2}) CHECK(difference(session, graph, {{3, length, 3}}) < 1e-6);
}

TEST_CASE("an image is resized to open sizes", "[lowering][open]") {
  const auto [mode, corners] =
      GENERATE(table<std::string, std::string>({{"upsample_nearest2d", ""},
                                                {"_upsample_nearest_exact2d", ""},
                                                {"upsample_bilinear2d", ", False"},
                                                {"upsample_bilinear2d", ", True"},
                                                {"upsample_bicubic2d", ", False"},
                                                {"_upsample_bilinear2d_aa", ", False"}}));
  const Graph graph = open_graph(fmt::format(
      R"graph(graph(%x: f32[2,3,<B>,<S>], %like: f32[<S>,<B>]):
  %h: int{{"Symbol('s1', positive=True, integer=True)": 4}} = aten.sym_size.int(%like, 0)
  %w: int{{"Symbol('s0', positive=True, integer=True)": 2}} = aten.sym_size.int(%like, 1)
  %y: f32[2,3,<S>,<B>] = aten.{}.vec(%x, [%h, %w]{}, None)
  return (%y))graph",
      mode, corners));
  for (const std::string& backend : backend_names()) {
    CAPTURE(mode, corners, backend);
    Session session(lowered_for(graph, backend));
    const std::pair<int64_t, int64_t> sizes[] = {{2, 4}, {7, 5}, {1, 3}, {4, 2}, {12, 3}};
    for (const auto& [height, width] : sizes)
      CHECK(difference(session, graph, {{2, 3, height, width}, {width, height}}) < 1e-5);
  }
}

TEST_CASE("rows with separate scales follow an open batch", "[lowering][open]") {
  const Graph graph = open_graph(R"graph(graph(%w = param "w": f32[4,8], %x: f32[<B>,8]):
  %s: f64[<B>,1], %z: i64[<B>,1] = quantized_decomposed.choose_qparams_per_token_asymmetric.default(%x, i8)
  %q: i8[<B>,8] = quantized_decomposed.quantize_per_token.default(%x, %s, %z, -128, 127, i8)
  %dq: f32[<B>,8] = quantized_decomposed.dequantize_per_token.default(%q, %s, %z, -128, 127, i8, f32)
  %y: f32[<B>,4] = aten.linear.default(%dq, %w)
  return (%y))graph");
  for (const std::string& backend : backend_names()) {
    Session session(lowered_for(graph, backend));
    for (int64_t batch : {1, 5, 2}) CHECK(difference(session, graph, {{batch, 8}}) < 0.02);
  }
}

TEST_CASE("a size fills a tensor", "[lowering][open]") {
  Graph graph = open_graph(R"graph(graph(%x: f32[<B>,3]):
  %n: int{"Symbol('s0', positive=True, integer=True)"} = aten.sym_size.int(%x, 0)
  %f: i64[2] = aten.full.default([2], %n, dtype=i64)
  %s: f32[] = aten.scalar_tensor.default(%n)
  %y: f32[2] = aten.mul.Tensor(%f, %s)
  return (%y))graph");
  Session session(reference_program(graph));
  for (int64_t rows : {2, 1, 5}) CHECK(difference(session, graph, {{rows, 3}}) == 0);
}

TEST_CASE("sizes that the inputs do not decide are refused", "[lowering][open]") {
  CHECK(error_of(open_graph(R"graph(graph(%x: f32[<B>,3]):
  %y: f32[{"Symbol('u0', integer=True)": 7},3] = aten.exp.default(%x)
  return (%y))graph")) ==
        "lower: y (aten.exp.default): has a size or an index that is known only when the program "
        "runs, which no backend and no fallback takes; 1 such op: y (aten.exp.default) gives the "
        "size u0; make it fixed before the export, or leave it to the caller");
  CHECK(error_of(open_graph(R"graph(graph(%x: f32[{"Add(Symbol('s0'), Symbol('s1'))": 7},3]):
  %y: f32[{"Add(Symbol('s0'), Symbol('s1'))": 7},3] = aten.exp.default(%x)
  return (%y))graph")) ==
        "lower: s0: is a size that no input's shape decides alone; export with a dimension that is "
        "this symbol");
}

TEST_CASE("arithmetic reads sizes, and what is computed of them, as numbers", "[lowering][open]") {
  const Graph graph = open_graph(R"graph(graph(%x: f32[<B>,<S>]):
  %b0: int{"Symbol('s0', positive=True, integer=True)": 2} = aten.sym_size.int(%x, 0)
  %n: int{"Symbol('s1', positive=True, integer=True)": 4} = aten.sym_size.int(%x, 1)
  %real: float = torch.sym_float(%n)
  %root: float = _operator.pow(%real, -0.5)
  %half: int = math.floor(%root)
  %exp: f32[<B>,<S>] = aten.exp.default(%x)
  %sum: f32[<S>] = aten.sum.dim_IntList(%exp, [0])
  %mean: f32[<S>] = aten.div.Tensor(%sum, %b0)
  %scaled: f32[<S>] = aten.mul.Tensor(%mean, %root)
  %y: f32[<S>] = aten.add.Tensor(%scaled, %half)
  return (%y))graph");
  for (const std::string& backend : backend_names()) {
    const Program program = lowered_for(graph, backend);
    // numbers come before the rest and do not cut it
    CHECK(program.ops[0].kind == "size");
    CHECK(program.segments.size() <= 4);
    Session session(program);
    for (int64_t batch : {2, 1, 7})
      for (int64_t length : {4, 9}) {
        CAPTURE(backend, batch, length);
        CHECK(difference(session, graph, {{batch, length}}) < 1e-5);
      }
  }
}

TEST_CASE("variances and own statistics follow an open batch", "[lowering][open]") {
  for (const char* op :
       {"aten.var.correction(%x, [0], correction=1)",
        "aten.batch_norm.default(%x, None, None, None, None, True, 0.1, 1e-05, True)"}) {
    const std::string shape = std::string(op).find("var") != std::string::npos ? "[3]" : "[<B>,3]";
    const Graph graph =
        open_graph("graph(%x: f32[<B>,3]):\n  %y: f32" + shape + " = " + op + "\n  return (%y)");
    Session session(lowered_for(graph, "reference"));
    for (int64_t batch : {2, 9, 64}) {
      CAPTURE(op, batch);
      CHECK(difference(session, graph, {{batch, 3}}) < 1e-5);
    }
  }
}

// A branch that `decides`, lines of a graph, chooses; a part of both divides by a size.
Graph branches(const std::string& decides) {
  return open_graph(R"graph(graph(%w = param "w": f32[3,3], %x: f32[<B>,3]):
  %b0: int{"Symbol('s0', positive=True, integer=True)": 2} = aten.sym_size.int(%x, 0)
)graph" + decides + R"graph(
  [%y: f32[<B>,3]] = higher_order.cond(%yes, graph "yes" (%a: f32[<B>,3], %v: f32[3,3]):
    %n: int{"Symbol('s0', positive=True, integer=True)": 2} = aten.sym_size.int(%a, 0)
    %l: f32[<B>,3] = aten.linear.default(%a, %v)
    %d: f32[<B>,3] = aten.div.Tensor(%l, %n)
    return (%d)
  , graph "no" (%a: f32[<B>,3], %v: f32[3,3]):
    %d: f32[<B>,3] = aten.neg.default(%a)
    return (%d)
  , [%x, %w])
  return (%y))graph");
}

TEST_CASE("a size decides a branch, and divides within it", "[lowering][open][control_flow]") {
  for (const char* decides :
       {"%yes: bool = _operator.gt(%b0, 3)",
        "%odd: int = _operator.mod(%b0, 2)\n  %is_odd: bool = _operator.eq(%odd, 1)\n"
        "  %yes: bool = torch.sym_not(%is_odd)",
        "%sum: f32[] = aten.sum.default(%x)\n  %number: float = aten.item.default(%sum)\n"
        "  %yes: bool = _operator.lt(%number, 0.25)"}) {
    const Graph graph = branches(decides);
    for (const std::string& backend : backend_names()) {
      Session session(lowered_for(graph, backend));
      for (int64_t batch : {2, 3, 4, 9}) {
        CAPTURE(decides, backend, batch);
        CHECK(difference(session, graph, {{batch, 3}}) < 1e-6);
      }
    }
  }
}

TEST_CASE("a number that no op computes is refused by name", "[lowering][open]") {
  const Graph graph = branches(R"(  %real: float = torch.sym_float(%b0)
  %wave: float = math.sin(%real)
  %yes: bool = _operator.gt(%wave, 0.0))");
  CHECK_THAT(error_of(graph), Contains("_operator.gt) reads the number %wave of math.sin, which is "
                                       "not computed here; replace them before the export"));
}

TEST_CASE("an op that a backend takes at the example's sizes alone stays out of it",
          "[lowering][open]") {
  // Reference everywhere else: it refuses what is longer than four rows.
  class Narrow : public BackendSupport {
   public:
    std::string name() const override { return "reference"; }
    std::map<std::string, std::string> versions() const override { return {}; }
    Verdict accepts(const Program& program, const ProgramOp& op) const override {
      const int64_t rows = program.tensor(op.inputs[0]).shape[0];
      return rows <= 4 ? Verdict::accept() : Verdict::refuse("it has more than 4 rows");
    }
  };
  const Graph graph = open_graph(R"graph(graph(%x: f32[<B>,3]):
  %y: f32[<B>,3] = aten.exp.default(%x)
  return (%y))graph");
  Report report;
  CHECK(lower(graph, Narrow(), {}, report).reasons.at("y") ==
        "it has more than 4 rows (at s0 = 5)");
}

TEST_CASE("mistakes of accepts() name the backend and the op", "[lowering][open]") {
  struct Faulty : BackendSupport {
    explicit Faulty(bool raises) : raises(raises) {}
    std::string name() const override { return "faulty"; }
    std::map<std::string, std::string> versions() const override { return {}; }
    Verdict accepts(const Program&, const ProgramOp&) const override {
      if (raises) throw std::runtime_error("out of SRAM");
      return Verdict::refuse("");
    }
    bool raises;
  };
  const Graph graph = open_graph(R"graph(graph(%x: f32[<B>,3]):
  %y: f32[<B>,3] = aten.exp.default(%x)
  return (%y))graph");
  const auto message = [&](bool raises) {
    return test::error_message([&] {
      Report report;
      lower(graph, Faulty(raises), {}, report);
    });
  };
  CHECK(message(true) == "lower: faulty: its accepts() of y (unary) says: out of SRAM");
  CHECK(message(false) ==
        "lower: faulty: its accepts() refuses y (unary) without a reason; give Verdict::refuse() "
        "one");
}

}  // namespace octet::test_open_sizes
