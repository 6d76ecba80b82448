#include "backends/kernels/int16_elements.h"

#include <algorithm>
#include <cmath>

#include "backends/kernels/isa.h"

namespace octet {
namespace {

constexpr int64_t kPiece = 256;  // elements

// Calls body(first, count) on pieces of [first, last).
template <typename Body>
void for_each_piece(int64_t first, int64_t last, const Body& body) {
  for (int64_t at = first; at < last; at += kPiece) body(at, std::min(kPiece, last - at));
}

template <typename T>
void map_piece(const Int16Map& m, const std::byte* from, int64_t count, std::byte* to) {
  T values[kPiece];
  load_reals(m.x, from, 1, count, values);
  if constexpr (std::is_same_v<T, float>)
    if (m.function) (*m.function)(values, values, count);
  store_reals(values, count, m.y, m.limits, to);
}

template <typename Function>
[[gnu::always_inline]] inline void combine(double* values, const double* others, int64_t count,
                                           const Function& function) {
  run_vectorized([=]() __attribute__((always_inline)) {
    double* __restrict a = values;
    const double* __restrict b = others;
    for (int64_t i = 0; i < count; ++i) a[i] = function(a[i], b[i]);
  });
}

// a = a op b.
void combine(const Int16Binary& p, double* a, const double* b, int64_t count) {
  const double factor = p.factor;
  switch (p.op) {
    case Int16Arithmetic::kAdd:
      return combine(a, b, count, [=](double x, double y) __attribute__((always_inline)) {
        return x + factor * y;
      });
    case Int16Arithmetic::kMul:
      return combine(a, b, count,
                     [](double x, double y) __attribute__((always_inline)) { return x * y; });
    case Int16Arithmetic::kDiv:
      return combine(a, b, count,
                     [](double x, double y) __attribute__((always_inline)) { return x / y; });
    case Int16Arithmetic::kMinimum:
      return combine(a, b, count, [](double x, double y) __attribute__((always_inline)) {
        return x != x || x < y ? x : y;
      });
    case Int16Arithmetic::kMaximum:
      return combine(a, b, count, [](double x, double y) __attribute__((always_inline)) {
        return x != x || x > y ? x : y;
      });
  }
}

// ---- pools

// Adds up reals rounded to float, in double, as backends/reference does.
void average_piece(const Int16Pool& p, const std::byte* image, const Int16Pool::Window& line,
                   const Int16Pool::Window& column, int64_t channel, int64_t count, std::byte* to) {
  float values[kPiece];
  double sums[kPiece] = {};
  const int64_t size = static_cast<int64_t>(size_of(p.x.dtype));
  for (int64_t h = line.begin; h < line.end; ++h)
    for (int64_t w = column.begin; w < column.end; ++w) {
      load_reals(p.x, image + ((h * p.width + w) * p.channels + channel) * size, 1, count, values);
      const float* const from = values;
      double* const into = sums;
      run_vectorized([=]() __attribute__((always_inline)) {
        const float* __restrict x = from;
        double* __restrict y = into;
        for (int64_t i = 0; i < count; ++i) y[i] += static_cast<double>(x[i]);
      });
    }
  const double divisor =
      p.divisor != 0 ? p.divisor : static_cast<double>(line.count * column.count);
  for (int64_t i = 0; i < count; ++i) sums[i] = divisor == 0 ? 0 : sums[i] / divisor;
  store_reals(sums, count, p.y, p.limits, to);
}

void greatest_piece(const Int16Pool& p, const std::byte* image, const Int16Pool::Window& line,
                    const Int16Pool::Window& column, int64_t channel, int64_t count,
                    std::byte* to) {
  const int16_t* const plane = reinterpret_cast<const int16_t*>(image) + channel;
  int16_t* const into = reinterpret_cast<int16_t*>(to);
  std::copy_n(plane + (line.begin * p.width + column.begin) * p.channels, count, into);
  for (int64_t h = line.begin; h < line.end; ++h)
    for (int64_t w = column.begin; w < column.end; ++w) {
      const int16_t* const from = plane + (h * p.width + w) * p.channels;
      run_vectorized([=]() __attribute__((always_inline)) {
        const int16_t* __restrict x = from;
        int16_t* __restrict y = into;
        for (int64_t i = 0; i < count; ++i) y[i] = x[i] > y[i] ? x[i] : y[i];
      });
    }
}

}  // namespace

void Int16Map::run(std::span<const std::byte* const> from, std::byte* to, std::byte*,
                   const Parallel& parallel) const {
  const int64_t x_size = static_cast<int64_t>(size_of(x.dtype)),
                y_size = static_cast<int64_t>(size_of(y.dtype));
  parallel.chunks(count, [&](int64_t first, int64_t last) {
    for_each_piece(first, last, [&](int64_t at, int64_t some) {
      is_double ? map_piece<double>(*this, from[0] + at * x_size, some, to + at * y_size)
                : map_piece<float>(*this, from[0] + at * x_size, some, to + at * y_size);
    });
  });
}

void Int16Binary::run(std::span<const std::byte* const> from, std::byte* to, std::byte*,
                      const Parallel& parallel) const {
  const int64_t y_size = static_cast<int64_t>(size_of(y.dtype)),
                a_size = static_cast<int64_t>(size_of(a.dtype)),
                b_size = static_cast<int64_t>(size_of(b.dtype)), a_step = walk.steps.back()[1],
                b_step = walk.steps.back()[2];
  for_each_run(walk, parallel, [&](const std::array<int64_t, 3>& start, int64_t length) {
    for_each_piece(0, length, [&](int64_t at, int64_t count) {
      double left[kPiece], right[kPiece];
      load_reals(a, from[0] + (start[1] + at * a_step) * a_size, a_step, count, left);
      load_reals(b, from[1] + (start[2] + at * b_step) * b_size, b_step, count, right);
      combine(*this, left, right, count);
      store_reals(left, count, y, limits, to + (start[0] + at) * y_size);
    });
  });
}

void Int16Pool::run(std::span<const std::byte* const> from, std::byte* to, std::byte*,
                    const Parallel& parallel) const {
  const int64_t x_size = static_cast<int64_t>(size_of(x.dtype)),
                y_size = static_cast<int64_t>(size_of(y.dtype)),
                pieces = (channels + kPiece - 1) / kPiece,
                high = static_cast<int64_t>(lines.size()),
                wide = static_cast<int64_t>(columns.size());
  const int64_t taps = (lines[0].end - lines[0].begin) * (columns[0].end - columns[0].begin);
  parallel(images * high * wide * pieces, kPiece * (taps + 1), [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t pixel = i / pieces, channel = i % pieces * kPiece,
                    count = std::min(kPiece, channels - channel);
      const Window& column = columns[static_cast<size_t>(pixel % wide)];
      const Window& line = lines[static_cast<size_t>(pixel / wide % high)];
      const std::byte* const image =
          from[0] + pixel / wide / high * height * width * channels * x_size;
      std::byte* const into = to + (pixel * channels + channel) * y_size;
      if (is_average)
        average_piece(*this, image, line, column, channel, count, into);
      else
        greatest_piece(*this, image, line, column, channel, count, into);
    }
  });
}

}  // namespace octet
