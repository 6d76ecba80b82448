// Matchers over ATen's and Octet's tensors: CHECK_THAT(actual, AllClose(expected, 1e-5)).
#pragma once

#include <cmath>
#include <string>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <catch2/catch.hpp>

#include <ATen/core/Tensor.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>

#include "core/interpreter/aten_bridge.h"

namespace octet::test {

inline at::Tensor as_aten(const at::Tensor& tensor) { return tensor; }
inline at::Tensor as_aten(const Tensor& tensor) { return to_aten(tensor); }

inline std::string describe_tensor(const at::Tensor& tensor) {
  if (!tensor.defined()) return "undefined";
  return fmt::format("{}[{}]", short_name_of(from_scalar_type(tensor.scalar_type())),
                     fmt::join(tensor.sizes(), ", "));
}

// Same dtype and shape, and |a - b| <= atol + rtol * |b| everywhere; NaN equals NaN. With both
// tolerances 0, elements must be equal.
template <typename T>
class AllCloseMatcher : public Catch::MatcherBase<T> {
 public:
  AllCloseMatcher(at::Tensor expected, double atol, double rtol)
      : expected_(std::move(expected)), atol_(atol), rtol_(rtol) {}

  bool match(const T& value) const override {
    const at::Tensor actual = as_aten(value);
    if (!actual.defined() || actual.scalar_type() != expected_.scalar_type() ||
        actual.sizes() != expected_.sizes())
      return false;
    if (actual.numel() == 0) return true;
    return at::allclose(actual.to(at::kDouble), expected_.to(at::kDouble), rtol_, atol_,
                        /*equal_nan=*/true);
  }
  std::string describe() const override {
    return fmt::format("is within {} + {} * |x| of {}", atol_, rtol_, describe_tensor(expected_));
  }

 private:
  at::Tensor expected_;
  double atol_;
  double rtol_;
};

template <typename T>
AllCloseMatcher<T> AllClose(const T& expected, double atol, double rtol = 0) {
  return {as_aten(expected), atol, rtol};
}
template <typename T>
AllCloseMatcher<T> BitEqual(const T& expected) {
  return {as_aten(expected), 0, 0};
}

}  // namespace octet::test
