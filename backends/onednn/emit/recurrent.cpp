// Recurrent layers: a product of the hidden state and one own loop over the gates for each time
// step. Weights that are stored as integers are read as such where the batch is small
// (kernels/weight_product.h); otherwise the product is oneDNN's, on floats packed once.
#include <bit>
#include <cmath>

#include <fmt/format.h>

#include "backends/onednn/builder/constants.h"
#include "backends/onednn/builder/conversions.h"
#include "backends/onednn/builder/loops.h"
#include "backends/onednn/emit/arithmetic.h"
#include "backends/onednn/emit/ops.h"
#include "backends/onednn/emit/weight_product.h"
#include "backends/onednn/kernels/isa.h"
#include "backends/onednn/kernels/quantize_row.h"
#include "backends/onednn/library.h"

namespace octet::onednn {
namespace {

// ---- functions of one element that the compiler can vectorise; relative error of the exponential
// below 1e-7

[[gnu::always_inline]] inline float exponential(float x) {
  x = x < -87.0f ? -87.0f : x;
  x = x > 87.0f ? 87.0f : x;
  const float n = (x * 1.44269504f + kRounder) - kRounder;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  return p * std::bit_cast<float>((static_cast<int32_t>(n) + 127) << 23);
}

[[gnu::always_inline]] inline float logistic(float x) { return 1.0f / (1.0f + exponential(-x)); }
[[gnu::always_inline]] inline float tangent(float x) {
  return 1.0f - 2.0f / (1.0f + exponential(2.0f * x));
}

// ---- the gates of one batch entry: given and own have `hidden` elements for each gate

struct Entry {
  const float* given;   // of the input
  const float* own;     // of the hidden state, with the bias
  const float* before;  // hidden state
  float* cell;          // in and out
  float* y;
  int64_t hidden;
};

[[gnu::always_inline]] inline void lstm_entry(const Entry& e) {
  const float* p = e.given;
  const float* o = e.own;
  float* __restrict c = e.cell;
  float* __restrict y = e.y;
  const int64_t h = e.hidden;
  for (int64_t i = 0; i < h; ++i) {
    const float kept = logistic(p[h + i] + o[h + i]) * c[i] +
                       logistic(p[i] + o[i]) * tangent(p[2 * h + i] + o[2 * h + i]);
    c[i] = kept;
    y[i] = logistic(p[3 * h + i] + o[3 * h + i]) * tangent(kept);
  }
}

[[gnu::always_inline]] inline void gru_entry(const Entry& e) {
  const float* p = e.given;
  const float* o = e.own;
  float* __restrict y = e.y;
  const int64_t h = e.hidden;
  for (int64_t i = 0; i < h; ++i) {
    const float update = logistic(p[h + i] + o[h + i]);
    const float fresh = tangent(p[2 * h + i] + logistic(p[i] + o[i]) * o[2 * h + i]);
    y[i] = (1.0f - update) * fresh + update * e.before[i];
  }
}

[[gnu::always_inline]] inline void tanh_entry(const Entry& e) {
  for (int64_t i = 0; i < e.hidden; ++i) e.y[i] = tangent(e.given[i] + e.own[i]);
}

[[gnu::always_inline]] inline void relu_entry(const Entry& e) {
  for (int64_t i = 0; i < e.hidden; ++i)
    e.y[i] = e.given[i] + e.own[i] > 0 ? e.given[i] + e.own[i] : 0.0f;
}

// arguments: given, own, hidden state before, y, cell state (lstm)
template <void (*kEntry)(const Entry&)>
Loop gates_loop(int64_t batch, int64_t rows, int64_t hidden, bool has_cell) {
  return [=](std::byte* const* arguments) {
    const auto at = [&](size_t i, int64_t n, int64_t width) {
      return reinterpret_cast<float*>(arguments[i]) + n * width;
    };
    for_parts(batch, rows, [&](int64_t first, int64_t last) {
      for (int64_t n = first; n < last; ++n) {
        const Entry e = {at(0, n, rows),   at(1, n, rows),
                         at(2, n, hidden), has_cell ? at(4, n, hidden) : nullptr,
                         at(3, n, hidden), hidden};
        run_vectorised([&]() __attribute__((always_inline)) { kEntry(e); });
      }
    });
  };
}

struct Cell {
  const char* name;
  Loop (*gates)(int64_t batch, int64_t rows, int64_t hidden, bool has_cell);
};
constexpr Cell kCells[] = {
    {"lstm", gates_loop<lstm_entry>},
    {"gru",  gates_loop<gru_entry> },
    {"tanh", gates_loop<tanh_entry>},
    {"relu", gates_loop<relu_entry>},
};

const Cell* find_cell(const std::string& name) {
  for (const Cell& cell : kCells)
    if (name == cell.name) return &cell;
  return nullptr;
}

// y[N, rows] = x[N, columns] * transpose(w) + bias, as one step for each pair of places. w [rows,
// columns] and bias [rows] are constants; without a bias -1.
class StepProduct {
 public:
  StepProduct(SegmentBuilder& builder, int weights, int bias, int64_t batch)
      : builder_(builder), batch_(batch) {
    const ProgramTensor& w = builder.tensor(weights);
    rows_ = w.shape[0];
    columns_ = w.shape[1];
    bias_ = builder
                .add_floats(bias >= 0 ? real_values(builder.tensor(bias))
                                      : std::vector<float>(static_cast<size_t>(rows_), 0.0f))
                .place;
    integers_ = find_weight_product(builder, w, batch);
    if (!integers_) plan_floats(weights);
  }

  void add(Place x, Place y) {
    if (integers_) return add_weight_product(builder_, *integers_, x, bias_, y);
    builder_.add_primitive("recurrent product", desc_,
                           {
                               {DNNL_ARG_SRC,     desc_.src_desc(),     x       },
                               {DNNL_ARG_WEIGHTS, desc_.weights_desc(), weights_},
                               {DNNL_ARG_BIAS,    bias_desc_,           bias_   },
                               {DNNL_ARG_DST,     desc_.dst_desc(),     y       }
    });
  }

 private:
  void plan_floats(int weights) {
    const dnnl::memory::desc source({batch_, columns_}, ElementType::f32,
                                    dnnl::memory::dims{columns_, 1});
    const dnnl::memory::desc plain({columns_, rows_}, ElementType::f32,
                                   dnnl::memory::dims{1, columns_});
    const dnnl::memory::desc any({columns_, rows_}, ElementType::f32,
                                 dnnl::memory::format_tag::any);
    const dnnl::memory::desc result({batch_, rows_}, ElementType::f32,
                                    dnnl::memory::dims{rows_, 1});
    bias_desc_ = dnnl::memory::desc({1, rows_}, ElementType::f32, dnnl::memory::dims{rows_, 1});
    desc_ = dnnl::matmul::primitive_desc(cpu_engine(), source, any, bias_desc_, result,
                                         new_attributes());
    refuse_reference_kernel("recurrent product", desc_.impl_info_str());
    weights_ = pack_weights(builder_, weights, plain, desc_.weights_desc());
  }

  SegmentBuilder& builder_;
  int64_t batch_;
  int64_t rows_ = 0;
  int64_t columns_ = 0;
  std::optional<IntegerProduct> integers_;
  Place bias_, weights_;
  dnnl::memory::desc bias_desc_;
  dnnl::matmul::primitive_desc desc_;
};

Place at_step(const Stored& sequence, int64_t t) {
  return {sequence.place.buffer,
          sequence.place.offset + t * sequence.strides[0] * bytes_of(sequence.quant_params.type)};
}

}  // namespace

void emit_recurrent(SegmentBuilder& builder, const ProgramOp& op) {
  const std::string name = op.text("cell", "");
  const Cell* cell = find_cell(name);
  if (cell == nullptr) throw Refusal{fmt::format("the cell {} is unknown here", name)};
  const ProgramTensor& yt = builder.tensor(op.outputs[0]);
  const bool has_cell = op.inputs.size() > 4;
  const int64_t steps = yt.shape[0], batch = yt.shape[1], width = yt.shape[2],
                rows = builder.tensor(op.inputs[1]).shape[0], hidden = has_cell ? rows / 4 : width;
  const Stored given =
      to_real(builder, op.inputs[0], row_major(builder.tensor(op.inputs[0]).shape));
  const Stored h0 = to_real(builder, op.inputs[3], {width, 1});
  const Stored y = builder.allocate(yt.shape, {}, row_major(yt.shape));
  const Stored own = builder.allocate({batch, rows}, {}, {rows, 1});
  StepProduct product(builder, op.inputs[1], op.inputs[2], batch);
  std::optional<StepProduct> projection;
  Stored unprojected, state;
  if (op.has_input(5)) {
    projection.emplace(builder, op.inputs[5], -1, batch);
    unprojected = builder.allocate({batch, hidden}, {}, {hidden, 1});
  }
  if (has_cell) {
    state = builder.allocate({batch, hidden}, {}, {hidden, 1});
    add_copy(builder, to_real(builder, op.inputs[4], {hidden, 1}), state);
  }
  const bool is_reverse = op.flag("reverse");
  Place before = h0.place;
  for (int64_t step = 0; step < steps; ++step) {
    const int64_t t = is_reverse ? steps - 1 - step : step;
    product.add(before, own.place);
    std::vector<Place> places = {at_step(given, t), own.place, before,
                                 projection ? unprojected.place : at_step(y, t)};
    if (has_cell) places.push_back(state.place);
    builder.add_loop("gates", cell->gates(batch, rows, hidden, has_cell), places);
    if (projection) projection->add(unprojected.place, at_step(y, t));
    before = at_step(y, t);
    if (builder.purpose() == SegmentBuilder::Purpose::kProve) break;  // one step is like the other
  }
  builder.define(op.outputs[0], y);
  if (has_cell) builder.define(op.outputs[1], state);
}

}  // namespace octet::onednn
