// Finds ops that belong to a formula that a backend runs as one op.
#include <set>

#include <catch2/catch.hpp>

#include "annotate/graph/float_ops.h"
#include "core/text/text.h"

namespace octet::test_formulas {
namespace {

std::set<std::string> names(const std::string& text) {
  const Graph graph = parse_graph(text);
  std::set<std::string> found;
  for (const Node* node : find_formula_nodes(graph)) found.insert(node->name());
  return found;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

const char* const kGelu = R"(graph(%x: f32[2,8], %z: f32[2,8]):
  %half: f32[2,8] = aten.mul.Tensor(%x, 0.5)
  %cube: f32[2,8] = aten.pow.Tensor_Scalar(%x, 3.0)
  %small: f32[2,8] = aten.mul.Tensor(%cube, 0.044715)
  %sum: f32[2,8] = aten.add.Tensor(%x, %small)
  %inside: f32[2,8] = aten.mul.Tensor(%sum, 0.7978845608028654)
  %tanh: f32[2,8] = aten.tanh.default(%inside)
  %gate: f32[2,8] = aten.add.Tensor(%tanh, 1.0)
  %y: f32[2,8] = aten.mul.Tensor(%half, %gate)
  %out: f32[2,8] = aten.mul.Tensor(%y, %z)
  return (%out))";

}  // namespace

TEST_CASE("the steps of a GELU by tanh are found", "[formulas]") {
  const std::set<std::string> all = {"half", "cube", "small", "sum", "inside", "tanh", "gate", "y"};
  CHECK(names(kGelu) == all);
  CHECK(names(replaced(kGelu, "Tensor(%half, %gate)", "Tensor(%gate, %half)")) == all);
  CHECK(names(replaced(kGelu, "Tensor(%x, %small)", "Tensor(%small, %x)")) == all);
  CHECK(names(replaced(kGelu, "Tensor(%x, 0.5)", "Tensor(%x, 0.4)")).empty());
  CHECK(names(replaced(kGelu, "Tensor_Scalar(%x, 3.0)", "Tensor_Scalar(%x, 2.0)")).empty());
  CHECK(names(replaced(kGelu, "Tensor(%x, 0.5)", "Tensor(%z, 0.5)")).empty());
}

TEST_CASE("the steps of a GELU by erf are found", "[formulas]") {
  const std::string text = R"(graph(%half_one = buffer "c": f32[], %x: f32[2,8]):
  %half: f32[2,8] = aten.mul.Tensor(%x, 0.5)
  %ratio: f32[2,8] = aten.div.Tensor(%x, 1.4142135623730951)
  %erf: f32[2,8] = aten.erf.default(%ratio)
  %gate: f32[2,8] = aten.add.Tensor(%erf, 1.0)
  %y: f32[2,8] = aten.mul.Tensor(%half, %gate)
  return (%y))";
  CHECK(names(text) == std::set<std::string>{"half", "ratio", "erf", "gate", "y"});
  CHECK(names(replaced(text, "1.4142135623730951", "1.5")).empty());
}

}  // namespace octet::test_formulas
