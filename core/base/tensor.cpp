#include "core/base/tensor.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"

namespace octet {
namespace {

constexpr size_t kAlignment = 64;

std::shared_ptr<Storage> allocate(size_t bytes) {
  const size_t rounded = (std::max<size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
  void* block = std::aligned_alloc(kAlignment, rounded);
  if (block == nullptr) throw std::bad_alloc();
  std::shared_ptr<void> owner(block, std::free);  // first, as the following allocations may throw
  std::memset(block, 0, rounded);
  auto storage = std::make_shared<Storage>();
  storage->data = static_cast<std::byte*>(block);
  storage->size = bytes;
  storage->owner = std::move(owner);
  return storage;
}

}  // namespace

Tensor::Tensor(std::shared_ptr<Storage> storage, DType dtype, std::vector<int64_t> shape,
               std::vector<int64_t> strides, int64_t offset)
    : storage_(std::move(storage)),
      dtype_(dtype),
      shape_(std::move(shape)),
      strides_(std::move(strides)),
      offset_(offset) {
  if (shape_.size() != strides_.size())
    throw Error(
        "tensor", "strides",
        fmt::format("got {} strides, want {}, one per dimension", strides_.size(), shape_.size()));
  int64_t first = offset_;
  int64_t last = offset_;
  for (size_t i = 0; i < shape_.size(); ++i) {
    if (shape_[i] < 0)
      throw Error("tensor", "shape",
                  fmt::format("got [{}], want sizes of at least 0", fmt::join(shape_, ", ")));
    if (shape_[i] == 0) return;  // no elements, so none can lie outside
    int64_t reach = 0;
    if (__builtin_mul_overflow(shape_[i] - 1, strides_[i], &reach) ||
        __builtin_add_overflow(reach < 0 ? first : last, reach, reach < 0 ? &first : &last))
      throw Error("tensor", "strides",
                  fmt::format("shape [{}] with strides [{}] overflows; the file is damaged",
                              fmt::join(shape_, ", "), fmt::join(strides_, ", ")));
  }
  const int64_t limit = static_cast<int64_t>(storage_->size / size_of(dtype_));
  if (first < 0 || last >= limit)
    throw Error("tensor", "storage",
                fmt::format("shape [{}], strides [{}], offset {} reach element {}, got {} "
                            "elements; the file is damaged",
                            fmt::join(shape_, ", "), fmt::join(strides_, ", "), offset_,
                            first < 0 ? first : last, limit));
}

Tensor Tensor::zeros(DType dtype, std::vector<int64_t> shape) {
  std::vector<int64_t> strides = contiguous_strides(shape);
  std::shared_ptr<Storage> storage = allocate(static_cast<size_t>(product(shape)) * size_of(dtype));
  return Tensor(std::move(storage), dtype, std::move(shape), std::move(strides), 0);
}

int64_t Tensor::numel() const { return product(shape_); }

bool Tensor::is_contiguous() const {
  int64_t expected = 1;
  for (size_t i = shape_.size(); i-- > 0;) {
    if (shape_[i] == 0) return true;
    if (shape_[i] != 1 && strides_[i] != expected) return false;
    expected *= shape_[i];
  }
  return true;
}

Tensor Tensor::without_data(DType dtype, std::vector<int64_t> shape) {
  Tensor result;
  result.dtype_ = dtype;
  result.strides_ = contiguous_strides(shape);
  result.shape_ = std::move(shape);
  return result;
}

std::byte* Tensor::raw() const {
  OCTET_ASSERT(defined(), "undefined tensor");
  return storage_->data + offset_ * static_cast<int64_t>(size_of(dtype_));
}

Tensor Tensor::contiguous() const { return is_contiguous() ? *this : clone(); }

Tensor Tensor::clone() const {
  Tensor copy = zeros(dtype_, shape_);
  const size_t element = size_of(dtype_);
  if (numel() == 0) return copy;
  if (is_contiguous()) {
    std::memcpy(copy.raw(), raw(), nbytes());
    return copy;
  }
  std::vector<int64_t> index(shape_.size(), 0);
  std::byte* out = copy.raw();
  const std::byte* base = raw();
  for (int64_t i = 0, n = numel(); i < n; ++i, out += element) {
    int64_t at = 0;
    for (size_t d = 0; d < index.size(); ++d) at += index[d] * strides_[d];
    std::memcpy(out, base + at * static_cast<int64_t>(element), element);
    for (size_t d = index.size(); d-- > 0 && ++index[d] == shape_[d];) index[d] = 0;
  }
  return copy;
}

std::string describe(const Tensor& tensor) {
  if (!tensor.defined()) return "undefined";
  return fmt::format("{}[{}]", short_name_of(tensor.dtype()), fmt::join(tensor.shape(), ", "));
}

bool has_only_zero_bits(const Tensor& tensor) {
  const Tensor elements = tensor.contiguous();
  return std::all_of(elements.raw(), elements.raw() + elements.nbytes(),
                     [](std::byte byte) { return byte == std::byte{0}; });
}

bool are_bools(std::span<const std::byte> bytes) {
  const std::byte bits =
      std::accumulate(bytes.begin(), bytes.end(), std::byte{0}, std::bit_or<std::byte>());
  return bits <= std::byte{1};
}

void copy_as_bools(std::span<const std::byte> from, std::byte* to) {
  std::transform(from.begin(), from.end(), to,
                 [](std::byte byte) { return byte == std::byte{0} ? byte : std::byte{1}; });
}

Tensor with_true_bools(const Tensor& given) {
  if (!given.defined() || given.dtype() != DType::kBool || given.numel() == 0) return given;
  const Tensor tensor = given.contiguous();
  const std::span<const std::byte> bytes(tensor.raw(), tensor.nbytes());
  if (are_bools(bytes)) return given;
  Tensor copy = Tensor::zeros(DType::kBool, tensor.shape());
  copy_as_bools(bytes, copy.raw());
  return copy;
}

}  // namespace octet
