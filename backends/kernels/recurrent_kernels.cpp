// Uses the compiler's vector types. A tile of rows keeps its sums in registers over the whole
// depth, and passes them from there to the gates.
#include "backends/kernels/recurrent_kernels.h"

#include <cstring>
#include <iterator>
#include <type_traits>

#include "backends/kernels/isa.h"
#include "backends/kernels/vector_math.h"

namespace octet {
namespace {

// ---- cells: compute one unit. p: gates of the input, o: gates of the hidden state

struct Lstm {
  static constexpr int64_t kGates = 4;
  static constexpr bool kHasState = true, kReadsHidden = false;
  [[gnu::always_inline]] static float next(const float (&p)[4], const float (&o)[4], float,
                                           float& state) {
    state = logistic(p[1] + o[1]) * state + logistic(p[0] + o[0]) * hyperbolic_tangent(p[2] + o[2]);
    return logistic(p[3] + o[3]) * hyperbolic_tangent(state);
  }
};

struct Gru {
  static constexpr int64_t kGates = 3;
  static constexpr bool kHasState = false, kReadsHidden = true;
  [[gnu::always_inline]] static float next(const float (&p)[3], const float (&o)[3], float hidden,
                                           float&) {
    const float update = logistic(p[1] + o[1]);
    const float fresh = hyperbolic_tangent(p[2] + logistic(p[0] + o[0]) * o[2]);
    return (1.0f - update) * fresh + update * hidden;
  }
};

struct Tanh {
  static constexpr int64_t kGates = 1;
  static constexpr bool kHasState = false, kReadsHidden = false;
  [[gnu::always_inline]] static float next(const float (&p)[1], const float (&o)[1], float,
                                           float&) {
    return hyperbolic_tangent(p[0] + o[0]);
  }
};

struct Relu {
  static constexpr int64_t kGates = 1;
  static constexpr bool kHasState = false, kReadsHidden = false;
  [[gnu::always_inline]] static float next(const float (&p)[1], const float (&o)[1], float,
                                           float&) {
    return p[0] + o[0] < 0.0f ? 0.0f : p[0] + o[0];
  }
};

struct Projection {
  static constexpr int64_t kGates = 1;
  static constexpr bool kHasState = false, kReadsHidden = false;
  [[gnu::always_inline]] static float next(const float (&)[1], const float (&o)[1], float, float&) {
    return o[0];
  }
};

// ---- the loops, for vectors of kLanes floats and a CPU of kRegisters

constexpr int64_t kAtOnce = kRecurrentDepth;

// Loads the weights of depth `s` of kAtOnce and one gate; an element of `from` holds one depth, or
// all kAtOnce. Writes to `to` because the calling convention for returning vectors depends on the
// instruction set.
template <int64_t kGates, int64_t kLanes, typename Floats>
[[gnu::always_inline]] inline void load(const float* from, int64_t gate, int64_t s, Floats& to) {
  to = *reinterpret_cast<const typename VectorOf<kLanes>::Floats*>(from +
                                                                   (s * kGates + gate) * kLanes);
}

// Shifts the byte to the top of its integer, so the float is 2^24 times the weight.
template <int64_t kGates, int64_t kLanes, typename Floats>
[[gnu::always_inline]] inline void load(const int32_t* from, int64_t gate, int64_t s, Floats& to) {
  using Ints = typename VectorOf<kLanes>::Ints;
  const Ints four = *reinterpret_cast<const Ints*>(from + gate * kLanes);
  const Ints one = s == kAtOnce - 1 ? four : four << static_cast<int32_t>(24 - 8 * s);
  to = __builtin_convertvector(s == 0 ? one : one & static_cast<int32_t>(0xff000000), Floats);
}

// Copies the elements of a vector; those from `count` on become 0.
template <int64_t kLanes>
[[gnu::always_inline]] inline void copy_in(float (&to)[kLanes], const float* from, int64_t count) {
  if (count == kLanes) return static_cast<void>(std::memcpy(to, from, sizeof(to)));
  std::memset(to, 0, sizeof(to));
  std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
}

template <int64_t kLanes>
[[gnu::always_inline]] inline void copy_out(float* to, const float (&from)[kLanes], int64_t count) {
  if (count == kLanes) return static_cast<void>(std::memcpy(to, from, sizeof(from)));
  std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
}

// Computes one vector of units of a batch entry. o: the sums of its gates.
template <typename Cell, int64_t kLanes>
[[gnu::always_inline]] inline void finish_units(const RecurrentView& v, int64_t row, int64_t unit,
                                                const float (&o)[Cell::kGates][kLanes]) {
  constexpr int64_t kGates = Cell::kGates;
  const int64_t left = v.units - unit, count = left < kLanes ? left : kLanes;
  float p[kGates][kLanes] = {}, hidden[kLanes] = {}, state[kLanes] = {}, y[kLanes];
  if constexpr (!std::is_same_v<Cell, Projection>)
    for (int64_t g = 0; g < kGates; ++g)
      copy_in<kLanes>(p[g], v.given + (row * kGates + g) * v.units + unit, count);
  if constexpr (Cell::kReadsHidden) copy_in<kLanes>(hidden, v.before + row * v.depth + unit, count);
  if constexpr (Cell::kHasState) copy_in<kLanes>(state, v.state + row * v.units + unit, count);
  for (int64_t i = 0; i < kLanes; ++i) {
    float of_input[kGates], of_hidden[kGates];
    for (int64_t g = 0; g < kGates; ++g) {
      of_input[g] = p[g][i];
      of_hidden[g] = o[g][i];
    }
    y[i] = Cell::next(of_input, of_hidden, hidden[i], state[i]);
  }
  if constexpr (Cell::kHasState) copy_out<kLanes>(v.state + row * v.units + unit, state, count);
  copy_out<kLanes>(v.y + row * v.units + unit, y, count);
}

template <typename Cell, typename Weight, int64_t kLanes, int64_t kRows>
[[gnu::always_inline]] inline void multiply_tile(const RecurrentView& v, int64_t panel,
                                                 int64_t row) {
  using Floats = typename VectorOf<kLanes>::Floats;
  constexpr int64_t kGates = Cell::kGates, kVectors = kGates * kLanes,
                    kStep = std::is_same_v<Weight, float> ? kAtOnce * kVectors : kVectors;
  // with few sums, use several for each to hide the latency of additions
  constexpr int64_t kSums = kGates * kRows <= 2 ? 4 : kGates * kRows <= 4 ? 2 : 1;
  const Weight* w =
      static_cast<const Weight*>(v.panels) + panel * ((v.depth + kAtOnce - 1) / kAtOnce) * kStep;
  const float* x = v.before + row * v.depth;
  Floats sum[kSums][kRows][kGates] = {};
  const auto add = [&](int64_t k, int64_t s) __attribute__((always_inline)) {
#pragma GCC unroll 8
    for (int64_t g = 0; g < kGates; ++g) {
      Floats factor;
      load<kGates, kLanes>(w, g, s, factor);
#pragma GCC unroll 8
      for (int64_t m = 0; m < kRows; ++m) sum[s % kSums][m][g] += x[m * v.depth + k + s] * factor;
    }
  };
  int64_t k = 0;
  for (; k + kAtOnce <= v.depth; k += kAtOnce, w += kStep)
#pragma GCC unroll 4
    for (int64_t s = 0; s < kAtOnce; ++s) add(k, s);
#pragma GCC unroll 4
  for (int64_t s = 0; s < kAtOnce; ++s)
    if (k + s < v.depth) add(k, s);
#pragma GCC unroll 8
  for (int64_t m = 0; m < kRows; ++m) {
    float values[kGates][kLanes];
#pragma GCC unroll 8
    for (int64_t g = 0; g < kGates; ++g) {
      Floats total = sum[0][m][g];
#pragma GCC unroll 8
      for (int64_t s = 1; s < kSums; ++s) total += sum[s][m][g];
      const int64_t at = panel * kVectors + g * kLanes;
      if constexpr (!std::is_same_v<Weight, float>)
        total *= *reinterpret_cast<const Floats*>(v.scale + at);
      *reinterpret_cast<Floats*>(values[g]) = total + *reinterpret_cast<const Floats*>(v.bias + at);
    }
    finish_units<Cell, kLanes>(v, row + m, panel * kLanes, values);
  }
}

template <typename Cell, typename Weight, int64_t kLanes, int64_t kRegisters>
[[gnu::always_inline]] inline void run_panels(const RecurrentView& v) {
  constexpr int64_t kRows = Cell::kGates == 1 ? 8 : kRegisters == 32 ? 4 : 2;
  for (int64_t panel = v.first_panel; panel < v.last_panel; ++panel) {
    int64_t row = v.first_row;
    for (; row + kRows <= v.last_row; row += kRows)
      multiply_tile<Cell, Weight, kLanes, kRows>(v, panel, row);
    if constexpr (kRows > 4)
      for (; row + 4 <= v.last_row; row += 4) multiply_tile<Cell, Weight, kLanes, 4>(v, panel, row);
    if constexpr (kRows > 2)
      for (; row + 2 <= v.last_row; row += 2) multiply_tile<Cell, Weight, kLanes, 2>(v, panel, row);
    if (row < v.last_row) multiply_tile<Cell, Weight, kLanes, 1>(v, panel, row);
  }
}

// ---- the table

template <typename Cell, typename Weight>
void run_cell(const RecurrentView& v) {
  run_in_vectors([&]<int64_t kLanes>() __attribute__((always_inline)) {
    run_panels<Cell, Weight, kLanes, kLanes == 16 ? 32 : 16>(v);
  });
}

struct CellRow {
  std::string_view name;
  RecurrentLoop of_floats, of_integers;
};
constexpr CellRow kCellRows[] = {
    {"lstm", run_cell<Lstm, float>, run_cell<Lstm, int32_t>},
    {"gru", run_cell<Gru, float>, run_cell<Gru, int32_t>},
    {"tanh", run_cell<Tanh, float>, run_cell<Tanh, int32_t>},
    {"relu", run_cell<Relu, float>, run_cell<Relu, int32_t>},
    {kProjection, run_cell<Projection, float>, run_cell<Projection, int32_t>},
};

}  // namespace

RecurrentLoop find_recurrent_loop(std::string_view cell, bool has_integers) {
  for (const CellRow& row : kCellRows)
    if (row.name == cell) return has_integers ? row.of_integers : row.of_floats;
  return nullptr;
}

int64_t recurrent_panel_units() { return vector_floats(); }

}  // namespace octet
