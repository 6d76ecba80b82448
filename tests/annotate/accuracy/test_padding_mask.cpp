// Row masks: which input is one, which rows it keeps, and what is not a mask.
#include "annotate/accuracy/padding_mask.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "core/text/text.h"

// After torch, which defines a macro CHECK.
#include <catch2/catch.hpp>

namespace octet::test_padding_mask {
namespace {

Graph graph_with(const std::string& inputs) {
  return parse_graph("graph(" + inputs +
                     "):\n    %y: f32[2,3] = aten.relu.default(%x)\n    return (%y)");
}

at::Tensor numbers(const std::vector<int64_t>& values) { return at::tensor(values); }
at::Tensor flags(const std::vector<int64_t>& values) { return numbers(values).to(at::kBool); }
at::Tensor mask_of(const at::Tensor& given) { return padding_mask_of({given}, 0); }

}  // namespace

TEST_CASE("the one input with mask in its name is the padding mask", "[annotate][padding_mask]") {
  CHECK(find_padding_mask(graph_with("%x: f32[2,3], %attention_mask: i64[1,3]")) == 1);
  CHECK_FALSE(find_padding_mask(graph_with("%x: f32[2,3]")));
  CHECK_FALSE(
      find_padding_mask(graph_with("%x: f32[2,3], %mask: i64[1,3], %other_mask: i64[1,3]")));
}

TEST_CASE("zeros and ones are a mask, anything else lets all rows count",
          "[annotate][padding_mask]") {
  CHECK(at::equal(mask_of(numbers({1, 1, 0}).reshape({1, 3})), flags({1, 1, 0}).reshape({1, 3})));
  CHECK(at::equal(mask_of(numbers({1, 0}).to(at::kFloat)), flags({1, 0})));
  CHECK_FALSE(mask_of(numbers({1, 2, 0})).defined());
  CHECK_FALSE(mask_of(numbers({0, -10000}).to(at::kFloat)).defined());
  CHECK_FALSE(mask_of(at::zeros({1, 3})).defined());
  CHECK_FALSE(mask_of(numbers({1})[0]).defined());
  CHECK_FALSE(padding_mask_of({numbers({1})}, std::nullopt).defined());
  CHECK_FALSE(padding_mask_of({c10::IValue(3)}, 0).defined());
  CHECK_FALSE(padding_mask_of({numbers({1})}, 1).defined());
}

TEST_CASE("rows that a mask leaves out are gone, in its shape or flattened",
          "[annotate][padding_mask]") {
  const at::Tensor x = at::arange(12).reshape({2, 3, 2});
  const at::Tensor mask = flags({1, 0, 1, 0, 0, 1}).reshape({2, 3});
  const at::Tensor kept = numbers({0, 1, 4, 5, 10, 11}).reshape({3, 2});
  CHECK(at::equal(rows_that_count(x, mask), kept));
  CHECK(at::equal(rows_that_count(x.reshape({6, 2}), mask), kept));
}

TEST_CASE("a mask of another shape does not change a tensor", "[annotate][padding_mask]") {
  const at::Tensor x = at::arange(12).reshape({2, 3, 2});
  CHECK(at::equal(rows_that_count(x, flags({1, 0})), x));
  CHECK(at::equal(rows_that_count(x, {}), x));
  CHECK(at::equal(rows_that_count(at::arange(3), flags({1, 0, 1})), at::arange(3)));
}

TEST_CASE("a note names the mask", "[annotate][padding_mask]") {
  Report report;
  note_padding_mask(graph_with("%x: f32[2,3]"), "round", report);
  CHECK(report.notes().empty());
  note_padding_mask(graph_with("%x: f32[2,3], %attention_mask: i64[1,3]"), "round", report);
  CHECK(report.notes() ==
        std::vector<std::string>{"round: rows that %attention_mask masks do not count"});
}

}  // namespace octet::test_padding_mask
