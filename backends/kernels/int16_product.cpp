// Multiplies tiles of pixels by panels of outputs.
#include "backends/kernels/int16_product.h"

#include <algorithm>
#include <utility>

#include "backends/kernels/int16_packing.h"
#include "backends/kernels/isa.h"
#include "core/base/error.h"

namespace octet {

using namespace int16_product;

namespace {

// ---- sums of a tile

// How pairs are multiplied: without an instruction for it, by vpmaddwd, or by vpdpwssd.
enum class Dot { kPlain, kPairs, kVnni };

// Vectors wider than the baseline's are only moved by the compiler: it would split arithmetic on
// them before it knows the instruction set that a function is inlined into. Clang, which knows it,
// would check the registers of asm against the baseline.

// Functions name this type: a deduced one would lose its alignment.
template <int64_t lanes>
using Int32s = typename VectorOf<lanes>::Ints;

// Adds to each lane of sums the products of both halves of x and w.
template <Dot dot, int64_t lanes>
[[gnu::always_inline]] inline void add_pairs(Int32s<lanes>& sums, const Int32s<lanes>& x,
                                             const Int32s<lanes>& w) {
#if defined(__x86_64__) && !defined(__clang__)
  if constexpr (dot == Dot::kVnni) {
    asm("vpdpwssd %2, %1, %0" : "+v"(sums) : "v"(x), "v"(w));
  } else if constexpr (lanes > 4) {
    Int32s<lanes> products;
    asm("vpmaddwd %3, %2, %1\n\tvpaddd %1, %0, %0" : "+v"(sums), "=&v"(products) : "v"(x), "v"(w));
  } else {
    Int32s<lanes> products = x;
    asm("pmaddwd %1, %0" : "+x"(products) : "x"(w));
    sums += products;
  }
#else
  sums += (x << 16 >> 16) * (w << 16 >> 16) + (x >> 16) * (w >> 16);
#endif
}

// The pair at `from` in every lane.
template <int64_t lanes>
[[gnu::always_inline]] inline void load_pair(const int16_t* from, Int32s<lanes>& both) {
  struct [[gnu::packed, gnu::may_alias]] Pair {
    int32_t value;
  };
  const Pair& pair = *reinterpret_cast<const Pair*>(from);
#if defined(__x86_64__) && !defined(__clang__)
  if constexpr (lanes > 4) {
    asm("vpbroadcastd %1, %0" : "=v"(both) : "m"(pair));
    return;
  }
#endif
  both = Int32s<lanes>{} + pair.value;
}

template <int64_t lanes>
using Int16s = typename VectorOf<lanes>::Int16s;

// Pairs first[c], second[c] for 2 * lanes channels c. As vpunpcklwd and vpunpckhwd leave them, each
// 128 bits of low have channels 8i to 8i + 3, and those of high the four after these.
template <int64_t lanes>
[[gnu::always_inline]] inline void load_pairs(const int16_t* first, const int16_t* second,
                                              Int32s<lanes>& low, Int32s<lanes>& high) {
  const Int16s<lanes>&a = *reinterpret_cast<const Int16s<lanes>*>(first),
        &b = *reinterpret_cast<const Int16s<lanes>*>(second);
#if defined(__x86_64__) && !defined(__clang__)
  if constexpr (lanes > 4) {
    asm("vpunpcklwd %2, %1, %0" : "=v"(low) : "v"(a), "v"(b));
    asm("vpunpckhwd %2, %1, %0" : "=v"(high) : "v"(a), "v"(b));
    return;
  } else
#endif
    [&]<int... i>(std::integer_sequence<int, i...>) __attribute__((always_inline)) {
      low = reinterpret_cast<Int32s<lanes>>(
          __builtin_shufflevector(a, b, (i / 8 * 8 + i % 8 / 2 + i % 2 * 2 * lanes)...));
      high = reinterpret_cast<Int32s<lanes>>(
          __builtin_shufflevector(a, b, (i / 8 * 8 + 4 + i % 8 / 2 + i % 2 * 2 * lanes)...));
    }(std::make_integer_sequence<int, static_cast<int>(2 * lanes)>{});
}

// Stores sums in the order of channels, which load_pairs changed.
template <int64_t lanes>
[[gnu::always_inline]] inline void store_in_order(Int32s<lanes> low, Int32s<lanes> high,
                                                  int32_t* to) {
  using V = Int32s<lanes>;
  V first = low, second = high;
#if defined(__x86_64__) && !defined(__clang__)
  if constexpr (lanes == 16) {
    static constexpr int32_t kFirst[] = {0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23},
                             kSecond[] = {8,  9,  10, 11, 24, 25, 26, 27,
                                          12, 13, 14, 15, 28, 29, 30, 31};
    second = low;
    asm("vpermt2d %1, %2, %0" : "+v"(first) : "v"(high), "v"(*reinterpret_cast<const V*>(kFirst)));
    asm("vpermt2d %1, %2, %0"
        : "+v"(second)
        : "v"(high), "v"(*reinterpret_cast<const V*>(kSecond)));
  } else if constexpr (lanes == 8) {
    asm("vperm2i128 $0x20, %2, %1, %0" : "=v"(first) : "v"(low), "v"(high));
    asm("vperm2i128 $0x31, %2, %1, %0" : "=v"(second) : "v"(low), "v"(high));
  }
#else
  if constexpr (lanes > 4)
    [&]<int... j>(std::integer_sequence<int, j...>) __attribute__((always_inline)) {
      first = __builtin_shufflevector(low, high, (j / 8 * 4 + j % 4 + j / 4 % 2 * lanes)...);
      second = __builtin_shufflevector(low, high,
                                       (lanes / 2 + j / 8 * 4 + j % 4 + j / 4 % 2 * lanes)...);
    }(std::make_integer_sequence<int, static_cast<int>(lanes)>{});
#endif
  *reinterpret_cast<V*>(to) = first;
  *reinterpret_cast<V*>(to + lanes) = second;
}

// Calls body<0>(), body<1>() ... GCC 12 keeps a copy of every sum in memory where it unrolls a loop
// itself.
template <int count, typename Body>
[[gnu::always_inline]] inline void unrolled(const Body& body) {
  [&]<int... i>(std::integer_sequence<int, i...>) __attribute__((always_inline)) {
    (body.template operator()<i>(), ...);
  }(std::make_integer_sequence<int, count>{});
}

// Adds a part's sums to `sums`, or starts them.
[[gnu::always_inline]] inline void keep(const int32_t* part, int64_t count, Digit digit,
                                        bool is_first, double* sums) {
  const double factor = digit == Digit::kHigh ? kHighFactor : 1;
  if (is_first)
    for (int64_t i = 0; i < count; ++i) sums[i] = factor * static_cast<double>(part[i]);
  else
    for (int64_t i = 0; i < count; ++i) sums[i] += factor * static_cast<double>(part[i]);
}

// sums[pixels, outputs of the panel] of the spans [first, last). rows: the address of the group's
// first channel, for each window position from `tap` on and each pixel. words: of the span; ends
// after the last one. Sum: int32_t for a single part, else double.
template <Dot dot, int64_t lanes, int vectors, int pixels, typename Sum>
[[gnu::always_inline]] inline void multiply_tile(const Span* first, const Span* last, int64_t tap,
                                                 const int32_t*& words, int64_t channel,
                                                 const int16_t* const* rows, bool is_first,
                                                 Sum* sums) {
  using V = Int32s<lanes>;
  V part[pixels * vectors] = {};
  for (const Span* span = first; span < last; ++span) {
    const int16_t* x[pixels];
    unrolled<pixels>([&]<int p>() __attribute__((always_inline)) {
      x[p] = rows[(span->tap - tap) * pixels + p] + channel + 2 * span->pair;
    });
    for (int64_t k = 0; k < span->count; ++k, words += vectors * lanes) {
      V w[vectors];
      unrolled<vectors>([&]<int v>() __attribute__((always_inline)) {
        w[v] = *reinterpret_cast<const V*>(words + v * lanes);
      });
      unrolled<pixels>([&]<int p>() __attribute__((always_inline)) {
        V both;
        load_pair<lanes>(x[p] + 2 * k, both);
        unrolled<vectors>([&]<int v>() __attribute__((always_inline)) {
          add_pairs<dot, lanes>(part[p * vectors + v], both, w[v]);
        });
      });
    }
    if (!span->is_last) continue;
    if constexpr (std::is_same_v<Sum, int32_t>) {  // the only part
      unrolled<pixels * vectors>([&]<int i>() __attribute__((always_inline)) {
        *reinterpret_cast<V*>(sums + i * lanes) = part[i];
      });
    } else {
      int32_t values[pixels * vectors * lanes];
      unrolled<pixels * vectors>([&]<int i>() __attribute__((always_inline)) {
        *reinterpret_cast<V*>(values + i * lanes) = part[i];
        part[i] = V{};
      });
      keep(values, pixels * vectors * lanes, span->digit, is_first, sums);
      is_first = false;
    }
  }
}

// sums[pixels, 2 * lanes] of the channels from `channel` on.
template <Dot dot, int64_t lanes, int pixels>
[[gnu::always_inline]] inline void multiply_depthwise(const int32_t* words, int64_t taps,
                                                      int64_t channel, const int16_t* const* rows,
                                                      int32_t* sums) {
  using V = Int32s<lanes>;
  V part[pixels * 2] = {};
  for (int64_t tap = 0; tap < taps; tap += 2, words += 2 * lanes) {
    const int16_t* const* const first = rows + tap * pixels;
    // The last of an odd number meets weights of 0.
    const int16_t* const* const second = tap + 1 < taps ? first + pixels : first;
    const V low_words = *reinterpret_cast<const V*>(words),
            high_words = *reinterpret_cast<const V*>(words + lanes);
    unrolled<pixels>([&]<int p>() __attribute__((always_inline)) {
      V low, high;
      load_pairs<lanes>(first[p] + channel, second[p] + channel, low, high);
      add_pairs<dot, lanes>(part[2 * p], low, low_words);
      add_pairs<dot, lanes>(part[2 * p + 1], high, high_words);
    });
  }
  unrolled<pixels>([&]<int p>() __attribute__((always_inline)) {
    store_in_order<lanes>(part[2 * p], part[2 * p + 1], sums + p * 2 * lanes);
  });
}

// ---- addresses

// Finds the pixels of x under window positions [tap, end): rows[end - tap, pixels]. Pixels of y
// after the last one repeat it.
template <int pixels>
[[gnu::always_inline]] inline void find_rows(const PackedInt16Product& p, const int16_t* x,
                                             int64_t first, int64_t tap, int64_t end,
                                             const int16_t** rows) {
  const Int16ProductTerms& t = p.t;
  int64_t column = first % t.out_width, line = first / t.out_width % t.out_height,
          image = first / t.out_width / t.out_height;
  for (int i = 0; i < pixels; ++i) {
    const int64_t top = line * t.stride[0] - t.padding[0],
                  left = column * t.stride[1] - t.padding[1];
    const int64_t start = ((image * t.height + top) * t.width + left) * p.stride;
    if (top >= 0 && left >= 0 && top + p.reach[0] < t.height && left + p.reach[1] < t.width) {
      for (int64_t k = tap; k < end; ++k)
        rows[(k - tap) * pixels + i] = x + (start + p.offsets[static_cast<size_t>(k)]);
    } else {
      for (int64_t k = tap; k < end; ++k) {
        const int64_t h = top + k / t.kernel[1] * t.dilation[0],
                      w = left + k % t.kernel[1] * t.dilation[1];
        const bool is_inside = h >= 0 && h < t.height && w >= 0 && w < t.width;
        rows[(k - tap) * pixels + i] =
            is_inside ? x + (start + p.offsets[static_cast<size_t>(k)]) : p.padding.data();
      }
    }
    if (first + i + 1 >= p.pixels() || ++column < t.out_width) continue;
    column = 0;
    if (++line < t.out_height) continue;
    line = 0;
    ++image;
  }
}

// ---- tiles

template <Dot dot, int64_t lanes, int pixels, typename Sum>
[[gnu::always_inline]] inline void run_panel(const PackedInt16Product& p, const Panel& panel,
                                             const int16_t* x, int64_t pixel, bool has_rows,
                                             const int16_t** rows, std::byte* y) {
  const auto run = [&]<int vectors>() __attribute__((always_inline)) {
    constexpr int64_t kWidth = vectors * lanes;
    Sum sums[pixels * kWidth];
    const int32_t* words = p.words.data() + panel.words;
    const Span* span = panel.spans.data();
    const Span* const last = span + panel.spans.size();
    for (int64_t tap = 0; tap < p.taps(); tap += kMostTaps) {
      const int64_t end = std::min(tap + kMostTaps, p.taps());
      if (!has_rows) find_rows<pixels>(p, x, pixel, tap, end, rows);
      const Span* const from = span;
      while (span < last && span->tap < end) ++span;
      multiply_tile<dot, lanes, vectors, pixels>(from, span, tap, words, panel.group * p.depth(),
                                                 rows, tap == 0, sums);
    }
    finish_int16<kWidth, Sum>(p.results(),
                              {sums, pixel, std::min<int64_t>(pixels, p.pixels() - pixel),
                               panel.first, panel.count, panel.constants},
                              y);
  };
  if (panel.vectors == 1) run.template operator()<1>();
  if (panel.vectors == 2) run.template operator()<2>();
  if constexpr (lanes == 16) {
    if (panel.vectors == 3) run.template operator()<3>();
    if (panel.vectors == 4) run.template operator()<4>();
  }
}

// Panels [first, last) for the pixels from `pixel` on.
template <Dot dot, int64_t lanes, int pixels>
[[gnu::always_inline]] inline void run_tile(const PackedInt16Product& p, const int16_t* x,
                                            int64_t pixel, int64_t first, int64_t last,
                                            std::byte* y) {
  const int16_t* rows[kMostTaps * pixels];
  const bool keeps_rows = p.taps() <= kMostTaps;
  if (keeps_rows) find_rows<pixels>(p, x, pixel, 0, p.taps(), rows);
  for (int64_t i = first; i < last; ++i) {
    const Panel& panel = p.panels[static_cast<size_t>(i)];
    if (panel.parts == 1)
      run_panel<dot, lanes, pixels, int32_t>(p, panel, x, pixel, keeps_rows, rows, y);
    else
      run_panel<dot, lanes, pixels, double>(p, panel, x, pixel, keeps_rows, rows, y);
  }
}

// The last block of channels may repeat some of the one before.
template <Dot dot, int64_t lanes, int pixels>
[[gnu::always_inline]] inline void run_depthwise_tile(const PackedInt16Product& p, const int16_t* x,
                                                      int64_t pixel, std::byte* y) {
  constexpr int64_t kWidth = 2 * lanes, kSums = pixels * kWidth;
  const int16_t* rows[kMostTaps * pixels];
  find_rows<pixels>(p, x, pixel, 0, p.taps(), rows);
  const int64_t there = std::min<int64_t>(pixels, p.pixels() - pixel),
                digit_words = (p.taps() + 1) / 2 * kWidth;
  const int32_t* words = p.words.data();
  size_t constants = 0;
  for (const Block& block : p.blocks) {
    int32_t sums[kSums];
    const auto multiply = [&]() __attribute__((always_inline)) {
      multiply_depthwise<dot, lanes, pixels>(words, p.taps(), block.first, rows, sums);
      words += digit_words;
    };
    const auto finish = [&](const auto* all) __attribute__((always_inline)) {
      finish_int16<kWidth>(p.results(),
                           Int16Sums<std::remove_cvref_t<decltype(*all)>>{
                               all, pixel, there, block.first, block.count, constants},
                           y);
      constants += kWidth;
    };
    multiply();
    if (!p.is_split) {
      finish(sums);
      continue;
    }
    double all[kSums];
    keep(sums, kSums, Digit::kHigh, true, all);
    multiply();
    keep(sums, kSums, Digit::kLow, false, all);
    finish(all);
  }
}

template <Dot dot, int64_t lanes>
[[gnu::always_inline]] inline void run_tiles(const PackedInt16Product& p, const int16_t* x,
                                             int64_t first, int64_t last, int64_t first_panel,
                                             int64_t last_panel, std::byte* y) {
  constexpr int kTile = lanes == 16 ? kWidestTile : 4;
  for (int64_t tile = first; tile < last; ++tile) {
    if (p.is_depthwise)
      run_depthwise_tile<dot, lanes, kTile>(p, x, tile * kTile, y);
    else if (p.pixels() == 1)
      run_tile<dot, lanes, 1>(p, x, 0, first_panel, last_panel, y);
    else
      run_tile<dot, lanes, kTile>(p, x, tile * kTile, first_panel, last_panel, y);
  }
}

void run_tiles(const PackedInt16Product& p, const int16_t* x, int64_t first, int64_t last,
               int64_t first_panel, int64_t last_panel, std::byte* y) {
#if defined(__x86_64__)
  if (may_use(Isa::kAvx512Vnni))
    return run_avx512([&]() __attribute__((always_inline)) {
      run_tiles<Dot::kVnni, 16>(p, x, first, last, first_panel, last_panel, y);
    });
  if (may_use(Isa::kAvx512))
    return run_avx512([&]() __attribute__((always_inline)) {
      run_tiles<Dot::kPairs, 16>(p, x, first, last, first_panel, last_panel, y);
    });
  if (may_use(Isa::kAvx2))
    return run_avx2([&]() __attribute__((always_inline)) {
      run_tiles<Dot::kPairs, 8>(p, x, first, last, first_panel, last_panel, y);
    });
  run_tiles<Dot::kPairs, 4>(p, x, first, last, first_panel, last_panel, y);
#else
  run_tiles<Dot::kPlain, 4>(p, x, first, last, first_panel, last_panel, y);
#endif
}

// ---- x as the loops read it

// to: [lines, before + pixels + after, stride].
template <typename E>
void widen(const PackedInt16Product& p, const E* from, int16_t* to, const Parallel& parallel) {
  const int64_t border = p.before + p.after, pixels = border > 0 ? p.t.width - border : 1,
                lines = p.t.images * p.t.height * p.t.width / (pixels + border),
                line = (pixels + border) * p.stride;
  const bool is_dense = p.stride == p.channels;
  const int64_t count = is_dense ? pixels * p.channels : p.channels, runs = is_dense ? 1 : pixels,
                gap = is_dense ? 0 : p.stride - p.channels;
  const int16_t zero_point = static_cast<int16_t>(p.t.x.zero_point);
  parallel(lines, line, [=, &p](int64_t first, int64_t last) {
    run_vectorized([=, &p]() __attribute__((always_inline)) {
      for (int64_t at = first; at < last; ++at) {
        const E* __restrict x = from + at * pixels * p.channels;
        int16_t* __restrict y = std::fill_n(to + at * line, p.before * p.stride, zero_point);
        for (int64_t i = 0; i < runs; ++i, x += count, y += count + gap) {
          for (int64_t c = 0; c < count; ++c) y[c] = static_cast<int16_t>(x[c]);
          std::fill_n(y + count, gap, int16_t{0});  // meets weights of 0
        }
        std::fill_n(y, p.after * p.stride, zero_point);
      }
    });
  });
}

}  // namespace

Int16Product::Int16Product(const Int16ProductTerms& terms) : packed_(pack_int16_product(terms)) {}

int64_t Int16Product::scratch_bytes() const {
  const Int16ProductTerms& t = packed_->t;
  // The last pair may read one element more, which meets a weight of 0.
  return packed_->is_widened ? (t.images * t.height * t.width * packed_->stride + 1) * 2 : 0;
}

void Int16Product::run(std::span<const std::byte* const> from, std::byte* to, std::byte* scratch,
                       const Parallel& parallel) const {
  const PackedInt16Product& p = *packed_;
  const int16_t* x = reinterpret_cast<const int16_t*>(from[0]);
  if (p.is_widened) {
    int16_t* const wide = reinterpret_cast<int16_t*>(scratch);
    switch (p.t.x.dtype) {
      case DType::kInt16: widen(p, x, wide, parallel); break;
      case DType::kUInt8:
        widen(p, reinterpret_cast<const uint8_t*>(from[0]), wide, parallel);
        break;
      default: widen(p, reinterpret_cast<const int8_t*>(from[0]), wide, parallel); break;
    }
    x = wide;
  }
  constexpr int64_t kProductsPerElement = 16;  // that take as long as an element of other loops
  const int64_t tiles = (p.pixels() + p.tile() - 1) / p.tile(),
                panels = static_cast<int64_t>(p.panels.size()),
                products = p.tile() * p.taps() * p.depth() * p.t.outputs / kProductsPerElement + 1;
  if (tiles >= panels)
    return parallel(tiles, products, [&](int64_t first, int64_t last) {
      run_tiles(p, x, first, last, 0, panels, to);
    });
  parallel(panels, products * tiles / panels + 1,
           [&](int64_t first, int64_t last) { run_tiles(p, x, 0, tiles, first, last, to); });
}

}  // namespace octet
