// Second-order rounding (weight_rounding.h): rounds one column of weights after another and moves
// the error of each to the columns that are not rounded yet. Frantar et al., "GPTQ: Accurate
// Post-Training Quantization for Generative Pre-trained Transformers", 2022. Afterwards, single
// weights move by one step as long as that lowers the error.
#include "annotate/accuracy/weight_rounding.h"

#include <algorithm>

#include <ATen/TensorOperators.h>
#include <ATen/ops/argsort.h>
#include <ATen/ops/cholesky_inverse.h>
#include <ATen/ops/cholesky_solve.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_cholesky_ex.h>
#include <ATen/ops/matmul.h>
#include <fmt/format.h>

#include "annotate/accuracy/rounding_kernels.h"
#include "core/base/error.h"

namespace octet {
namespace {

constexpr const char* kSecondOrderStage = "second-order rounding";
constexpr int kMaxTries = 16;

// The lower Cholesky factor. When it fails for lack of precision, retries with a ten times larger
// addition to the diagonal.
at::Tensor factor_of(const at::Tensor& matrix) {
  const double mean = matrix.diagonal().mean().item<double>();
  at::Tensor sum = matrix;
  double ridge = 1e-12 * mean;
  for (int i = 0; i < kMaxTries; ++i, ridge *= 10) {
    const auto [factor, info] = at::linalg_cholesky_ex(sum);
    if (info.item<int64_t>() == 0) return factor;
    sum = matrix.clone();
    sum.diagonal().add_(ridge);
  }
  OCTET_ASSERT(false, "a damped Hessian has a Cholesky factor");
  return {};
}

// Rounds one group: all tensors are [R, K], the Hessian is [K, K].
//
// Rounding column j from v to q leaves an error e = v - q in the output that the free columns f can
// partly undo. The least squares solution is V_f -= e * Hinv[j, f] / Hinv[j, j], with Hinv the
// inverse of the Hessian of j and the free columns. The rows of these inverses that are needed are
// those of the upper Cholesky factor of the whole inverse, so one factorization serves all columns.
// Example with two nearly equal inputs, H = [[1, 0.99], [0.99, 1]], and weights (0.4, 0.4):
// rounding the first to 0 moves the second to 0.4 + 0.99 * 0.4 = 0.8, which rounds to 1. Rounding
// both to nearest would give (0, 0).
class GroupRounder {
 public:
  GroupRounder(const RoundingProblem& problem, int64_t group, const SecondOrderOptions& options)
      : problem_(problem),
        group_(group),
        options_(options),
        order_(at::argsort(problem.hessian[group].diagonal(), true, 0, true)) {}

  at::Tensor run() {
    hessian_ =
        problem_.hessian[group_].index_select(0, order_).index_select(1, order_).contiguous();
    cross_ = pick(problem_.cross);
    scale_ = pick(problem_.scale);
    zero_point_ = pick(problem_.zero_point);
    at::Tensor q = round_all();
    improve(q);
    at::Tensor near = pick(problem_.nearest);
    improve(near);
    q = at::where((error(near) < error(q)).unsqueeze(1), near, q);
    return q.index_select(1, at::argsort(order_));
  }

 private:
  at::Tensor pick(const at::Tensor& of_problem) const {
    return of_problem[group_].index_select(1, order_).contiguous();
  }

  GridRows grid() const {
    return {scale_.data_ptr<double>(),
            zero_point_.data_ptr<double>(),
            static_cast<double>(problem_.quant_min),
            static_cast<double>(problem_.quant_max),
            scale_.size(0),
            scale_.size(1)};
  }

  at::Tensor round_all() const {
    const at::Tensor lower = factor_of(hessian_);
    const at::Tensor upper = factor_of(at::cholesky_inverse(lower)).t().contiguous();
    const at::Tensor target = at::cholesky_solve(cross_.t(), lower).t().contiguous();
    at::Tensor q = at::empty(target.sizes(), target.options());
    const int64_t columns = target.size(1);
    for (int64_t begin = 0; begin < columns; begin += options_.block_columns) {
      const int64_t end = std::min(begin + options_.block_columns, columns);
      const at::Tensor residual = at::empty({target.size(0), end - begin}, target.options());
      round_columns(grid(), upper.data_ptr<double>(), begin, end, target.data_ptr<double>(),
                    q.data_ptr<double>(), residual.data_ptr<double>());
      if (end < columns)
        target.slice(1, end).sub_(at::matmul(residual, upper.slice(0, begin, end).slice(1, end)));
    }
    return q;
  }

  at::Tensor values(const at::Tensor& q) const { return scale_ * (q - zero_point_); }
  at::Tensor gradient(const at::Tensor& q) const {
    return at::matmul(values(q), hessian_) - cross_;
  }
  // of each row
  at::Tensor error(const at::Tensor& q) const {
    return (values(q) * (gradient(q) - cross_)).sum(1);
  }

  void improve(at::Tensor& q) const {
    if (options_.passes == 0) return;
    at::Tensor slope = gradient(q).contiguous();
    descend(grid(), hessian_.data_ptr<double>(), options_.passes, q.data_ptr<double>(),
            slope.data_ptr<double>());
  }

  const RoundingProblem& problem_;
  int64_t group_;
  const SecondOrderOptions& options_;
  at::Tensor order_;  // columns by energy
  at::Tensor hessian_;
  at::Tensor cross_;
  at::Tensor scale_;
  at::Tensor zero_point_;
};

void check(const SecondOrderOptions& options) {
  if (options.block_columns < 1)
    throw Error(kSecondOrderStage, "block_columns",
                fmt::format("got {}, want at least 1; 128 is typical", options.block_columns));
  if (options.passes < 0)
    throw Error(kSecondOrderStage, "passes",
                fmt::format("got {}, want at least 0", options.passes));
}

}  // namespace

RoundingMethod second_order_method(const SecondOrderOptions& options) {
  check(options);
  return [options](const RoundingProblem& problem) {
    at::Tensor q = at::empty(problem.weight.sizes(), problem.weight.options());
    for (int64_t group = 0; group < q.size(0); ++group)
      q[group].copy_(GroupRounder(problem, group, options).run());
    return q;
  };
}

std::vector<LayerRounding> round_second_order(ObservedGraph& observed, const BatchSource& data,
                                              Report& report, const RoundingOptions& options,
                                              const SecondOrderOptions& method) {
  return round_weights(observed, data, second_order_method(method), options, kSecondOrderStage,
                       report);
}

}  // namespace octet
