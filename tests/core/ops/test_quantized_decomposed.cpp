// Compares quantized_decomposed and torchao's ops with the results of their Python versions
// (make_qdq_goldens.py, make_affine_goldens.py): equal to the bit.
#include <chrono>
#include <cstring>
#include <map>

#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/interpreter/aten_bridge.h"
#include "core/interpreter/ivalue_convert.h"
#include "core/ops/op_lookup.h"
#include "core/pt2/tensor_file.h"

// Last, because the torch headers also define CHECK.
#include <catch2/catch.hpp>

namespace octet::test_quantized_decomposed {
namespace {

using c10::IValue;

// "torch.int8", "torch.uint4" -> c10's number of it. octet's DType has no dtypes of less than a
// byte, which no file can hold.
c10::ScalarType scalar_type_of(std::string_view text) {
  static const std::map<std::string_view, c10::ScalarType> kSmall = {
      {"torch.uint4", c10::ScalarType::UInt4},
      {"torch.uint7", c10::ScalarType::UInt7},
      {"torch.int2", c10::ScalarType::Int2},
      {"torch.int4", c10::ScalarType::Int4}};
  const auto found = kSmall.find(text);
  return found == kSmall.end() ? to_scalar_type(*find_dtype(text.substr(6))) : found->second;
}

std::vector<IValue> call(const std::string& target, std::vector<IValue> arguments) {
  const std::optional<c10::OperatorHandle> op = find_operator(target);
  if (!op) throw std::runtime_error(target + " is not registered");
  torch::jit::Stack stack;
  const std::vector<c10::Argument>& wanted = op->schema().arguments();
  for (size_t i = 0; i < wanted.size(); ++i) {
    IValue value = i < arguments.size() ? arguments[i] : IValue(*wanted[i].default_value());
    if (value.isString() && value.toStringRef().starts_with("torch."))
      value = static_cast<int64_t>(scalar_type_of(value.toStringRef()));
    stack.push_back(coerce(value, wanted[i], target));
  }
  op->callBoxed(stack);
  return stack;
}

std::string difference(const at::Tensor& got, const at::Tensor& want) {
  if (got.scalar_type() != want.scalar_type())
    return fmt::format("dtype {}, want {}", c10::toString(got.scalar_type()),
                       c10::toString(want.scalar_type()));
  if (got.sizes() != want.sizes())
    return fmt::format("shape [{}], want [{}]", fmt::join(got.sizes(), ", "),
                       fmt::join(want.sizes(), ", "));
  const Tensor a = from_aten(got).contiguous();
  const Tensor b = from_aten(want).contiguous();
  if (a.numel() > 0 && std::memcmp(a.raw(), b.raw(), a.nbytes()) != 0) return "other values";
  return "";
}

// The entry with its disguised tensors ("as torch.uint16", then the bytes as another dtype; "as
// list", then ints) as what they are.
std::vector<IValue> revealed(const std::vector<IValue>& entry) {
  std::vector<IValue> result;
  for (size_t i = 0; i < entry.size(); ++i) {
    if (entry[i].isString() && entry[i].toStringRef().starts_with("as torch.")) {
      const c10::ScalarType type = to_scalar_type(*find_dtype(entry[i].toStringRef().substr(9)));
      result.emplace_back(entry.at(++i).toTensor().view(type));
    } else if (entry[i].isString() && entry[i].toStringRef() == "as list") {
      const at::Tensor items = entry.at(++i).toTensor();
      result.emplace_back(std::vector<int64_t>(items.const_data_ptr<int64_t>(),
                                               items.const_data_ptr<int64_t>() + items.numel()));
    } else {
      result.push_back(entry[i]);
    }
  }
  return result;
}

// Repeats every call of a golden file; returns the count of each op.
std::map<std::string, int> check_goldens(const std::string& file) {
  const BatchReader calls(std::string(OCTET_BINARY_DIR) + "/" + file);
  std::map<std::string, int> compared;
  for (size_t i = 0; i < calls.size(); ++i) {
    const std::vector<IValue> entry = revealed(calls.at(i));
    const std::string target = entry.at(0).toStringRef();
    const auto count = static_cast<std::ptrdiff_t>(entry.at(2).toInt());
    const std::vector<IValue> arguments(entry.begin() + 3, entry.begin() + 3 + count);
    const std::vector<IValue> expected(entry.begin() + 3 + count, entry.end());
    std::string text = fmt::format("call {}: {} \"{}\"(", i, target, entry.at(1).toStringRef());
    for (const IValue& argument : arguments) text += describe(argument) + ", ";
    INFO(text);
    ++compared[target];
    if (expected.at(0).isString()) {
      CHECK_THROWS(call(target, arguments));
      continue;
    }
    const std::vector<IValue> results = call(target, arguments);
    REQUIRE(results.size() == expected.size());
    for (size_t k = 0; k < results.size(); ++k)
      CHECK(difference(results[k].toTensor(), expected[k].toTensor()) == "");
  }
  return compared;
}

TEST_CASE("every op gives the bits that torch's Python gives, and refuses what it refuses",
          "[core][quantized_decomposed]") {
  CHECK(check_goldens("qdq_goldens.pt").size() == 19);
}

TEST_CASE("every affine op gives the bits that torchao's Python gives, and refuses what it refuses",
          "[core][torchao]") {
  CHECK(check_goldens("affine_goldens.pt").size() == 5);
}

TEST_CASE("affine ops take blocks of any shape, and say what does not fit", "[core][torchao]") {
  const at::Tensor x = at::ones({4, 6});
  const auto choose = [&](std::vector<int64_t> blocks, const char* mapping) {
    return call("torchao.choose_qparams_affine.default",
                {x, mapping, blocks, IValue("torch.int8")});
  };
  CHECK(choose({2, 3}, "ASYMMETRIC").at(0).toTensor().sizes() == at::IntArrayRef({2, 2}));
  CHECK_THROWS_WITH(choose({1, 4}, "SYMMETRIC"),
                    Catch::Contains("size 6 of dimension 1 must be divisible by its block size 4"));
  CHECK_THROWS_WITH(choose({6}, "SYMMETRIC"),
                    Catch::Contains("the input has 2 dimensions, got block_size [6]"));
  CHECK_THROWS_WITH(choose({1, 6}, "PLAIN"), Catch::Contains("unsupported mapping type: PLAIN"));
}

TEST_CASE("the layout of the input is kept", "[core][quantized_decomposed]") {
  const at::Tensor image = at::randn({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor quantized = call("quantized_decomposed.quantize_per_tensor.default",
                                    {image, 0.1, 0, -128, 127, IValue("torch.int8")})
                                   .at(0)
                                   .toTensor();
  CHECK(quantized.strides() == image.strides());
  const at::Tensor back = call("quantized_decomposed.dequantize_per_tensor.default",
                               {quantized, 0.1, 0, -128, 127, IValue("torch.int8")})
                              .at(0)
                              .toTensor();
  CHECK(back.strides() == image.strides());
}

TEST_CASE("wrong calls say what is wrong", "[core][quantized_decomposed]") {
  const at::Tensor x = at::ones({3});
  const std::string quantize = "quantized_decomposed.quantize_per_tensor.default";
  CHECK_THROWS_WITH(
      call(quantize, {x, 1.0, 0, -129, 127, IValue("torch.int8")}),
      Catch::Contains("quant_min out of bounds for Char, got -129, want at least -128"));
  CHECK_THROWS_WITH(call(quantize, {x, 1.0, 0, -128, 128, IValue("torch.int8")}),
                    Catch::Contains("quant_max out of bounds for Char, got 128, want at most 127"));
  CHECK_THROWS_WITH(call(quantize, {x, 1.0, 0, 0, 1, IValue("torch.bool")}),
                    Catch::Contains("unsupported dtype: Bool"));
  CHECK_THROWS_WITH(call(quantize, {x.to(at::kInt), 1.0, 0, -128, 127, IValue("torch.int8")}),
                    Catch::Contains("but got dtype: Int"));
}

TEST_CASE("fake_quant_per_channel passes the gradient inside of the range",
          "[core][quantized_decomposed]") {
  at::Tensor x = at::zeros({2, 2});
  x[0][0] = 0.5;
  x[0][1] = 1000;
  x[1][0] = -1000;
  x.requires_grad_(true);
  const at::Tensor y = call("quantized_decomposed.fake_quant_per_channel.default",
                            {x, at::ones({2}), at::zeros({2}, at::kInt), 0, -128, 127})
                           .at(0)
                           .toTensor();
  y.sum().backward();
  at::Tensor expected = at::ones({2, 2});
  expected[0][1] = 0;
  expected[1][0] = 0;
  CHECK(at::equal(x.grad(), expected));
}

TEST_CASE("registering twice does nothing", "[core][quantized_decomposed]") {
  register_quantized_decomposed();
  register_quantized_decomposed();
  CHECK(find_operator("quantized_decomposed.quantize_per_tensor.default").has_value());
}

}  // namespace
}  // namespace octet::test_quantized_decomposed
