// Fake-quants with a scale for each group, token or block.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>

#include "annotate/observers/affine.h"
#include "core/base/error.h"

// After torch, which defines a macro CHECK.
#include <catch2/catch.hpp>

namespace octet::test_block_fake_quantize {
namespace {

using Kind = Granularity::Kind;

ObserverArgs block_args(Granularity granularity,
                        MappingType mapping = MappingType::kSymmetricNoClippingErr,
                        bool is_dynamic = false) {
  ObserverArgs args;
  args.choice.name = "affine_fake_quantize";
  args.choice.averaging_constant = 1;
  args.quant_min = -8;
  args.quant_max = 7;
  args.is_dynamic = is_dynamic;
  AffineOptions& options = args.choice.affine.emplace();
  options.granularity = std::move(granularity);
  options.mapping_type = mapping;
  return args;
}

// Fake-quantizes each block separately, per tensor.
at::Tensor by_block(const at::Tensor& rows, MappingType mapping) {
  std::vector<at::Tensor> results;
  const std::shared_ptr<Observer> whole =
      make_observer(block_args({.kind = Kind::kPerTensor, .block_size = {}}, mapping, true));
  for (int64_t i = 0; i < rows.size(0); ++i) results.push_back(whole->forward(rows[i]));
  return at::stack(results);
}

// The output equals that of each block alone, gradients are 1, and 0 where values are clipped.
void check_blocks(const Granularity& granularity, const at::Tensor& x,
                  const std::function<at::Tensor(const at::Tensor&)>& to_rows) {
  for (const MappingType mapping :
       {MappingType::kSymmetricNoClippingErr, MappingType::kAsymmetric}) {
    INFO(to_text(granularity));
    const std::shared_ptr<Observer> observer = make_observer(block_args(granularity, mapping));
    const at::Tensor given = x.clone().requires_grad_();
    const at::Tensor y = observer->forward(given);
    CHECK(to_rows(y.detach()).equal(by_block(to_rows(x), mapping)));
    enable_observers({observer}, false);
    observer->forward(given * 10).sum().backward();
    const at::Tensor clipped = given.grad().eq(0);
    CHECK(clipped.any().item<bool>());
    CHECK((given.grad().eq(10) | clipped).all().item<bool>());
  }
}

}  // namespace

TEST_CASE(
    "fake-quants of blocks: groups, tokens, axes and blocks are rounded each by itself, with "
    "gradients",
    "[annotate][block_fake_quantize]") {
  at::manual_seed(0);
  const at::Tensor x = at::randn({6, 8});
  check_blocks({.kind = Kind::kPerGroup, .group_size = 4, .block_size = {}}, x,
               [](const at::Tensor& t) { return t.reshape({12, 4}); });
  check_blocks({.kind = Kind::kPerToken, .block_size = {}}, x,
               [](const at::Tensor& t) { return t; });
  check_blocks({.kind = Kind::kPerAxis, .axis = 1, .block_size = {}}, x,
               [](const at::Tensor& t) { return t.t().contiguous(); });
  check_blocks({.kind = Kind::kPerBlock, .block_size = {3, 2}}, x, [](const at::Tensor& t) {
    return t.reshape({2, 3, 4, 2}).permute({0, 2, 1, 3}).reshape({8, 6}).contiguous();
  });
}

TEST_CASE(
    "fake-quants of blocks: tokens of a dynamic spec take each batch's own range, however many "
    "there are",
    "[annotate][block_fake_quantize]") {
  const std::shared_ptr<Observer> observer = make_observer(
      block_args({.kind = Kind::kPerToken, .block_size = {}}, MappingType::kAsymmetric, true));
  for (const int64_t tokens : {3, 5}) {
    const at::Tensor x = at::randn({tokens, 8}) * static_cast<double>(tokens);
    CHECK(observer->forward(x).equal(by_block(x, MappingType::kAsymmetric)));
  }
}

TEST_CASE(
    "fake-quants of blocks: floats of 8 bits, other observers and static scales of another number "
    "of blocks are refused",
    "[annotate][block_fake_quantize]") {
  const Granularity token = {.kind = Kind::kPerToken, .block_size = {}};
  ObserverArgs args = block_args(token, MappingType::kSymmetric);
  args.dtype = DType::kFloat8E4M3FN;
  CHECK_THROWS_WITH(make_observer(args),
                    "prepare: affine_fake_quantize: a fake-quant rounds to integers, got "
                    "float8_e4m3fn; use affine_min_max");
  args = block_args(token);
  args.choice.name = "affine_fake_quantize(min_max)";
  CHECK_THROWS_WITH(make_observer(args),
                    "prepare: affine_fake_quantize(min_max): this fake-quant has an affine "
                    "observer, got min_max; use fake_quantize");
  args = block_args(token, MappingType::kAsymmetric, true);
  args.choice.name = "affine_fake_quantize(affine_placeholder)";
  CHECK_THROWS_WITH(make_observer(args), Catch::Contains("affine_placeholder does not have"));
  const std::shared_ptr<Observer> observer = make_observer(block_args(token));
  observer->forward(at::randn({3, 8}));
  CHECK_THROWS_WITH(observer->forward(at::randn({4, 8})),
                    Catch::Contains("the number of blocks with a scale changed, got 4, want 3"));
}

}  // namespace octet::test_block_fake_quantize
