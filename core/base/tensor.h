// Tensors: strided views of shared bytes, for weights, constants, inputs and outputs. Free of torch
// (core/interpreter/aten_bridge.h converts, without copying).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/dtype.h"
#include "core/base/shape.h"

namespace octet {

// Bytes that several tensors may share (tied weights, slices of one buffer). `owner` keeps them
// alive: a heap block, a mapped file, or a torch storage.
struct Storage {
  // read-only when the owner is a mapped file (mapped copy-on-write, so writing is safe but
  // private)
  std::byte* data = nullptr;
  size_t size = 0;  // bytes
  std::shared_ptr<void> owner;
};

// Shape, strides and offset are in elements, as in torch. A default-constructed Tensor is undefined
// (no storage).
class Tensor {
 public:
  Tensor() = default;
  // A view of `storage`. Throws Error when the last element would lie outside of it.
  Tensor(std::shared_ptr<Storage> storage, DType dtype, std::vector<int64_t> shape,
         std::vector<int64_t> strides, int64_t offset);

  // Has a dtype and a shape, but is undefined: for bytes that are kept elsewhere in another form.
  static Tensor without_data(DType dtype, std::vector<int64_t> shape);
  // New contiguous, zero-filled, 64-byte aligned.
  static Tensor zeros(DType dtype, std::vector<int64_t> shape);
  // New contiguous tensor with a copy of `values`; values.size() must be the product of `shape`.
  template <typename T>
  static Tensor from(DType dtype, std::vector<int64_t> shape, std::span<const T> values);

  bool defined() const { return storage_ != nullptr; }
  DType dtype() const { return dtype_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  const std::vector<int64_t>& strides() const { return strides_; }
  int64_t offset() const { return offset_; }
  const std::shared_ptr<Storage>& storage() const { return storage_; }
  int64_t numel() const;
  // size of the elements, not of the storage
  size_t nbytes() const { return static_cast<size_t>(numel()) * size_of(dtype_); }
  // strides of size-1 dimensions do not matter
  bool is_contiguous() const;

  // Address of the first element.
  std::byte* raw() const;
  template <typename T>
  T* data() const {
    return reinterpret_cast<T*>(raw());
  }

  // Itself when contiguous, otherwise a contiguous copy.
  Tensor contiguous() const;
  // A deep, contiguous copy.
  Tensor clone() const;

 private:
  std::shared_ptr<Storage> storage_;
  DType dtype_ = DType::kFloat32;
  std::vector<int64_t> shape_;
  std::vector<int64_t> strides_;
  int64_t offset_ = 0;
};

// "f32[2, 3]"
std::string describe(const Tensor& tensor);

// Whether all bits of all elements are 0. Requires a defined tensor.
bool has_only_zero_bits(const Tensor& tensor);

template <typename T>
Tensor Tensor::from(DType dtype, std::vector<int64_t> shape, std::span<const T> values) {
  Tensor result = zeros(dtype, std::move(shape));
  T* out = result.data<T>();
  for (size_t i = 0; i < values.size(); ++i) out[i] = values[i];
  return result;
}

// Bools from outside: `true` is the byte 1, and reading a `bool` from a byte other than 0 and 1 is
// undefined behavior, so other bytes are replaced by 1 on input. are_bools(): whether each byte is
// 0 or 1.
bool are_bools(std::span<const std::byte> bytes);
// Copies `from` to `to`, of the same size, with 1 for each nonzero byte. They may be the same.
void copy_as_bools(std::span<const std::byte> from, std::byte* to);
// A copy when the tensor has bools with other bytes, else the tensor itself.
Tensor with_true_bools(const Tensor& given);

}  // namespace octet
