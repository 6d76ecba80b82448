// Plans walks, and implements copies and rotary embeddings.
#include "backends/kernels/strided.h"

#include <algorithm>
#include <cstring>

#include "backends/kernels/isa.h"
#include "core/base/error.h"

namespace octet {
namespace {

template <typename T>
void copy_run(const T* from, int64_t from_step, T* to, int64_t to_step, int64_t count) {
  constexpr int64_t kShort = 16;  // a call costs more
  if (from_step == 1 && to_step == 1 && count >= kShort)
    return static_cast<void>(std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T)));
  for (int64_t i = 0; i < count; ++i) to[i * to_step] = from[i * from_step];
}

[[gnu::always_inline]] inline void rotate(const float* x, const float* cosine, const float* sine,
                                          float* __restrict y, int64_t half, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    y[i] = x[i] * cosine[i] - x[i + half] * sine[i];
    y[i + half] = x[i + half] * cosine[i + half] + x[i] * sine[i + half];
  }
}

}  // namespace

Walk plan_walk(const std::vector<int64_t>& shape, const std::vector<int64_t>& y,
               const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  std::vector<size_t> order;
  for (size_t i = 0; i < shape.size(); ++i)
    if (shape[i] != 1) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](size_t p, size_t q) { return y[p] > y[q]; });
  Walk walk;
  for (size_t i : order) {
    const std::array<int64_t, 3> step = {y[i], a[i], b[i]};
    if (!walk.counts.empty()) {
      std::array<int64_t, 3>& outer = walk.steps.back();
      bool continues = true;
      for (size_t k = 0; k < 3; ++k) continues = continues && outer[k] == step[k] * shape[i];
      if (continues) {
        walk.counts.back() *= shape[i];
        outer = step;
        continue;
      }
    }
    walk.counts.push_back(shape[i]);
    walk.steps.push_back(step);
  }
  if (walk.counts.empty()) {
    walk.counts.push_back(1);
    walk.steps.push_back({1, 1, 1});
  }
  OCTET_ASSERT(walk.counts.size() <= kHighestRank, "a walk of too many dimensions");
  return walk;
}

StridedCopy::StridedCopy(const CopyTerms& terms)
    : walk_(plan_walk(terms.shape, terms.to_strides, terms.from_strides, terms.to_strides)),
      from_offset_(terms.from_offset),
      to_offset_(terms.to_offset),
      element_size_(terms.element_size),
      table_(terms.table) {
  OCTET_ASSERT(element_size_ == 1 || element_size_ == 2 || element_size_ == 4,
               "a copy of another element size");
}

template <typename T>
void StridedCopy::run_typed(const std::byte* from, std::byte* to, const Parallel& parallel) const {
  const T* const x = reinterpret_cast<const T*>(from) + from_offset_;
  T* const y = reinterpret_cast<T*>(to) + to_offset_;
  const int64_t from_step = walk_.steps.back()[1], to_step = walk_.steps.back()[0];
  if constexpr (sizeof(T) == 1)
    if (table_)
      return for_each_run(walk_, parallel, [&](const std::array<int64_t, 3>& at, int64_t count) {
        for (int64_t i = 0; i < count; ++i)
          y[at[0] + i * to_step] = (*table_)[x[at[1] + i * from_step]];
      });
  for_each_run(walk_, parallel, [&](const std::array<int64_t, 3>& at, int64_t count) {
    copy_run(x + at[1], from_step, y + at[0], to_step, count);
  });
}

void StridedCopy::run(std::span<const std::byte* const> from, std::byte* to, std::byte*,
                      const Parallel& parallel) const {
  if (element_size_ == 1) return run_typed<uint8_t>(from[0], to, parallel);
  element_size_ == 2 ? run_typed<uint16_t>(from[0], to, parallel)
                     : run_typed<uint32_t>(from[0], to, parallel);
}

Rotary::Rotary(const std::vector<int64_t>& shape, const std::vector<int64_t>& x_strides,
               const std::vector<int64_t>& factor_strides, const std::vector<int64_t>& y_strides) {
  OCTET_ASSERT(shape.back() % 2 == 0 && x_strides.back() == 1 && factor_strides.back() == 1 &&
                   y_strides.back() == 1,
               "the rows of a rotary embedding have gaps");
  const auto outer = [](const std::vector<int64_t>& all) {
    return std::vector<int64_t>(all.begin(), all.end() - 1);
  };
  walk_ = plan_walk(outer(shape), outer(y_strides), outer(x_strides), outer(factor_strides));
  walk_.counts.push_back(shape.back() / 2);
  walk_.steps.push_back({1, 1, 1});
}

void Rotary::run(std::span<const std::byte* const> from, std::byte* to, std::byte*,
                 const Parallel& parallel) const {
  const float *x = reinterpret_cast<const float*>(from[0]),
              *cosine = reinterpret_cast<const float*>(from[1]),
              *sine = reinterpret_cast<const float*>(from[2]);
  float* const y = reinterpret_cast<float*>(to);
  const int64_t half = walk_.counts.back();
  for_each_run(walk_, parallel, [=](const std::array<int64_t, 3>& at, int64_t count) {
    run_vectorized([=]() __attribute__((always_inline)) {
      rotate(x + at[1], cosine + at[2], sine + at[2], y + at[0], half, count);
    });
  });
}

}  // namespace octet
