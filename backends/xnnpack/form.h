// Forms: the shapes that a tensor can have as an XNNPACK value. Forms of the same memory order
// differ only in their dimensions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/tensor.h"
#include "lowering/program/program.h"

namespace octet::xnnpack {

// Memory order of the elements of a logical [N, C, spatial...] tensor.
enum class Order {
  kRowMajor,
  kChannelsLast,
  kBytes,       // row-major, quantized to bytes at run time (RowLayout)
  kPixelBytes,  // as kBytes, channels last: a row of RowLayout per pixel
};

enum class Form {
  kPlain,         // the logical shape, row-major; a scalar has one dimension
  kRows,          // [rows, 1, 1, last dimension], row-major: the input of a 1x1 convolution
  kChannelsLast,  // [N, H, W, C] of a logical [N, C, H, W]; [N, 1, W, C] of a logical [N, C, W]
};

// The forms in which an op reads its activations and writes its output.
struct Forms {
  Form in;
  Form out;
};

// Only ranks 3 and 4 have the form kChannelsLast.
bool has_channels_last(const std::vector<int64_t>& shape);
std::vector<size_t> dims_of(const std::vector<int64_t>& shape, Form form);
// Returns kRowMajor also for channels-last shapes whose orders coincide (one channel or one pixel).
Order order_of(const std::vector<int64_t>& shape, Form form);

// A copy between the two orders: to[b][c][r] = from[b][r][c]; one row or one column is a plain
// copy. `flip` turns u8 into s8 and back (q xor 128).
struct Shuffle {
  int64_t batch = 1;
  int64_t rows = 1;
  int64_t columns = 1;
  size_t element_size = 1;  // bytes: 1, 2, 4 or 8; 1 when flip is set
  bool flip = false;
};
Shuffle shuffle_between(const ProgramTensor& tensor, Order from, Order to, bool flip);
void run(const Shuffle& shuffle, const std::byte* from, std::byte* to);

// Copies a constant in the memory order and dtype (u8 becomes s8) of `form`, with padding for
// kernels that read past the end. A rank below `rank` gets leading ones first.
std::vector<std::byte> constant_bytes(const ProgramTensor& tensor, Form form, size_t rank);
// Adds leading ones up to `rank`.
std::vector<int64_t> padded_shape(const std::vector<int64_t>& shape, size_t rank);

}  // namespace octet::xnnpack
