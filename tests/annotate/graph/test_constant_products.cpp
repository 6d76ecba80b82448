// Products with a constant matrix become linear layers with the same values.
#include <ATen/ops/linspace.h>

#include "annotate/graph/constant_products.h"
#include "core/base/shape.h"
#include "core/interpreter/aten_bridge.h"
#include "core/interpreter/interpreter.h"
#include "core/passes/verify.h"
#include "core/text/text.h"
#include "support/tensor_matchers.h"

// After torch, which defines a macro CHECK.
#include "support/graph_matchers.h"

namespace octet::test_constant_products {
namespace {

using test::AllClose;
using test::PrintsAs;

at::Tensor numbers(const std::vector<int64_t>& shape) {
  return at::linspace(-1.0, 2.0, product(shape), at::kFloat).sin().reshape(shape);
}

at::Tensor run(const Graph& graph) {
  const std::vector<int64_t> shape = graph.user_inputs().front()->meta->shape();
  return Interpreter(graph).run({numbers(shape)}).front().toTensor();
}

// Replaces the only product of the graph.
Graph rewritten(const char* text) {
  Graph graph = parse_graph(text);
  Tensor& weight = graph.constants.at("w").tensor;
  weight = from_aten(numbers(weight.shape()));
  const at::Tensor before = run(graph);
  CHECK(constant_products_to_linear(graph) == 1);
  verify(graph);
  CHECK_THAT(run(graph), AllClose(before, 1e-5, 1e-5));
  CHECK(constant_products_to_linear(graph) == 0);
  return graph;
}

// The number of products that are replaced in a graph with these nodes.
int changes(const char* text) {
  Graph graph = parse_graph(text);
  return constant_products_to_linear(graph);
}

}  // namespace

TEST_CASE("a product with a transposed parameter is a linear layer of the parameter",
          "[annotate][products]") {
  for (const char* transpose :
       {"aten.numpy_T.default(%w)", "aten.t.default(%w)", "aten.transpose.int(%w, -1, 0)",
        "aten.permute.default(%w, [1, 0])", "aten.mT.default(%w)"}) {
    const std::string text = std::string(R"(graph(%w = param "w": f32[5,3], %x: f32[2,4,3]):
      %t: f32[3,5] = )") + transpose +
                             R"(
      %y: f32[2,4,5] = aten.matmul.default(%x, %t)
      return (%y))";
    INFO(text);
    const Graph graph = rewritten(text.c_str());
    CHECK(graph.find_node("y")->target() == "aten.linear.default");
    CHECK(graph.find_node("y")->find_input("weight")->name() == "w");
  }
}

TEST_CASE("a product with a parameter is a linear layer of its transpose", "[annotate][products]") {
  CHECK_THAT(rewritten(R"(graph(%w = param "w": f32[3,5], %x: f32[2,4,3]):
      %y: f32[2,4,5] = aten.matmul.default(%x, %w)
      return (%y))"),
             PrintsAs(R"(graph(%w = param "w": f32[3,5], %x: f32[2,4,3]):
      %y_weight: f32[5,3] = aten.permute.default(%w, [1, 0])
      %y: f32[2,4,5] = aten.linear.default(%x, %y_weight)
      return (%y))"));
}

TEST_CASE("einsum makes heads of a linear layer", "[annotate][products]") {
  CHECK_THAT(rewritten(R"(graph(%w = param "w": f32[6,2,3], %x: f32[4,1,6]):
      %y: f32[4,1,2,3] = aten.einsum.default("ibh,hnd->ibnd", [%x, %w])
      return (%y))"),
             PrintsAs(R"(graph(%w = param "w": f32[6,2,3], %x: f32[4,1,6]):
      %y_permuted: f32[2,3,6] = aten.permute.default(%w, [1, 2, 0])
      %y_weight: f32[6,6] = aten.reshape.default(%y_permuted, [6, 6])
      %y_linear: f32[4,1,6] = aten.linear.default(%x, %y_weight)
      %y: f32[4,1,2,3] = aten.unflatten.int(%y_linear, -1, [2, 3])
      return (%y))"));
}

TEST_CASE("einsum of heads is a linear layer", "[annotate][products]") {
  CHECK_THAT(rewritten(R"(graph(%w = param "w": f32[6,2,3], %x: f32[4,1,2,3]):
      %y: f32[4,1,6] = aten.einsum.default("ibnd, hnd -> ibh", [%x, %w])
      return (%y))"),
             PrintsAs(R"(graph(%w = param "w": f32[6,2,3], %x: f32[4,1,2,3]):
      %y_rows: f32[4,1,6] = aten.flatten.using_ints(%x, 2, -1)
      %y_weight: f32[6,6] = aten.reshape.default(%w, [6, 6])
      %y: f32[4,1,6] = aten.linear.default(%y_rows, %y_weight)
      return (%y))"));
}

TEST_CASE("einsum with the weight first, and with its labels in any order",
          "[annotate][products]") {
  CHECK_THAT(rewritten(R"(graph(%w = param "w": f32[2,3,5], %x: f32[3,4,7]):
      %y: f32[2,7,5,4] = aten.einsum.default("ncd,cbt->ntdb", [%w, %x])
      return (%y))"),
             PrintsAs(R"(graph(%w = param "w": f32[2,3,5], %x: f32[3,4,7]):
      %y_input: f32[4,7,3] = aten.permute.default(%x, [1, 2, 0])
      %y_permuted: f32[2,5,3] = aten.permute.default(%w, [0, 2, 1])
      %y_weight: f32[10,3] = aten.reshape.default(%y_permuted, [10, 3])
      %y_linear: f32[4,7,10] = aten.linear.default(%y_input, %y_weight)
      %y_parts: f32[4,7,2,5] = aten.unflatten.int(%y_linear, -1, [2, 5])
      %y: f32[2,7,5,4] = aten.permute.default(%y_parts, [2, 1, 3, 0])
      return (%y))"));
}

TEST_CASE("products that are not linear layers stay", "[annotate][products]") {
  const char* const kKept[] = {
      // two activations
      "graph(%x: f32[4,3], %z: f32[3,5]): %y: f32[4,5] = aten.matmul.default(%x, %z) return (%y)",
      // two constants
      R"(graph(%v = param "v": f32[4,3], %w = param "w": f32[3,5], %x: f32[4,5]):
        %p: f32[4,5] = aten.matmul.default(%v, %w) %y: f32[4,5] = aten.add.Tensor(%x, %p)
        return (%y))",
      // a matrix for each batch
      R"(graph(%w = param "w": f32[2,3,5], %x: f32[2,4,3]):
        %y: f32[2,4,5] = aten.matmul.default(%x, %w) return (%y))",
      R"(graph(%w = param "w": f32[2,3,5], %x: f32[2,4,3]):
        %y: f32[2,4,5] = aten.einsum.default("btc,bcd->btd", [%x, %w]) return (%y))",
      // a label that is summed in one operand alone
      R"(graph(%w = param "w": f32[3,5], %x: f32[4,3]):
        %y: f32[4] = aten.einsum.default("bc,cd->b", [%x, %w]) return (%y))",
      // a diagonal; an ellipsis; no result labels
      R"(graph(%w = param "w": f32[3,3], %x: f32[4,3]):
        %y: f32[4] = aten.einsum.default("bc,cc->b", [%x, %w]) return (%y))",
      R"(graph(%w = param "w": f32[3,5], %x: f32[4,3]):
        %y: f32[4,5] = aten.einsum.default("...c,cd->...d", [%x, %w]) return (%y))",
      R"(graph(%w = param "w": f32[3,5], %x: f32[4,3]):
        %y: f32[4,5] = aten.einsum.default("bc,cd", [%x, %w]) return (%y))",
  };
  for (const char* text : kKept) {
    INFO(text);
    CHECK(changes(text) == 0);
  }
}

}  // namespace octet::test_constant_products
