#include <memory>
#include <vector>

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "core/base/error.h"
#include "core/interpreter/aten_bridge.h"

// Last, because the torch headers also define CHECK.
#include <catch2/catch.hpp>

namespace octet::test_aten_bridge {
namespace {

TEST_CASE("a tensor and its torch twin share their bytes", "[core][aten_bridge]") {
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const Tensor tensor = Tensor::from<float>(DType::kFloat32, {2, 3}, values);
  const at::Tensor twin = to_aten(tensor);
  CHECK(twin.scalar_type() == at::kFloat);
  CHECK(twin.sizes().vec() == std::vector<int64_t>{2, 3});
  CHECK(twin.data_ptr() == tensor.raw());
  twin.fill_(7);
  CHECK(tensor.data<float>()[5] == 7);
}

TEST_CASE("strides and offsets cross the bridge unchanged, both ways", "[core][aten_bridge]") {
  const at::Tensor view =
      at::arange(24, at::kLong).reshape({4, 6}).slice(0, 1, 4).slice(1, 1, 6, 2).t();
  const Tensor tensor = from_aten(view);
  CHECK(tensor.shape() == std::vector<int64_t>{3, 3});
  CHECK(tensor.strides() == std::vector<int64_t>{2, 6});
  CHECK(tensor.offset() == 7);
  CHECK(at::equal(to_aten(tensor), view));
}

TEST_CASE("either side keeps the bytes alive for the other", "[core][aten_bridge]") {
  std::weak_ptr<Storage> watched;
  at::Tensor twin;
  {
    const Tensor tensor = Tensor::zeros(DType::kInt8, {5});
    watched = tensor.storage();
    twin = to_aten(tensor);
  }
  CHECK_FALSE(watched.expired());
  CHECK(twin.sum().item().toLong() == 0);
  twin = at::Tensor();
  CHECK(watched.expired());

  Tensor kept;
  {
    const at::Tensor source = at::arange(3, at::kFloat);
    kept = from_aten(source);
  }
  CHECK(kept.data<float>()[2] == 2);
}

TEST_CASE("every dtype goes to torch and back", "[core][aten_bridge]") {
  for (int i = 0; i <= static_cast<int>(DType::kFloat8E8M0FNU); ++i) {
    const auto dtype = static_cast<DType>(i);
    INFO(name_of(dtype));
    CHECK(from_scalar_type(to_scalar_type(dtype)) == dtype);
    const at::Tensor twin = to_aten(Tensor::zeros(dtype, {2, 2}));
    CHECK(twin.element_size() == static_cast<int64_t>(size_of(dtype)));
    CHECK(from_aten(twin).dtype() == dtype);
  }
  CHECK_THROWS_WITH(from_scalar_type(c10::ScalarType::QInt8),
                    Catch::Contains("QInt8: the dtype is not supported"));
}

TEST_CASE("scalars, empty and undefined tensors cross the bridge", "[core][aten_bridge]") {
  CHECK(to_aten(Tensor::zeros(DType::kFloat32, {})).dim() == 0);
  CHECK(to_aten(Tensor::zeros(DType::kFloat32, {0, 4})).numel() == 0);
  CHECK_FALSE(to_aten(Tensor()).defined());
  CHECK_FALSE(from_aten(at::Tensor()).defined());
  CHECK(from_aten(at::zeros({0, 3})).shape() == std::vector<int64_t>{0, 3});
}

TEST_CASE("a sparse tensor is refused", "[core][aten_bridge]") {
  CHECK_THROWS_WITH(from_aten(at::zeros({2, 2}).to_sparse()),
                    Catch::Contains("want a dense one on the CPU"));
}

}  // namespace
}  // namespace octet::test_aten_bridge
