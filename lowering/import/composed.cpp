// Imports ops that are compositions of arithmetic: norms, gates, statistics, distances, recurrent
// cells. Each function reads like its formula.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "lowering/import/steps.h"

namespace octet {
namespace {

int input_of(Steps& s) { return s.operand({"self", "input", "x1"}); }

// Statistics are computed in float32, as ATen does for narrower types.
int as_float(Steps& s, int x) {
  return size_of(s.dtype(x)) < 4 || !is_floating_point(s.dtype(x)) ? s.cast(x, DType::kFloat32) : x;
}

std::vector<int64_t> dims_of(const Node& node, const char* name = "dim") {
  return node.ints_or(name, {});
}

// ---- normalizations

// The op rms_norm takes a constant weight; a computed weight becomes a product after it.
void import_rms_norm(Steps& s, const Node& node) {
  const int x = as_float(s, input_of(s)), weight = s.operand("weight");
  const std::vector<int64_t> shape = node.ints_or("normalized_shape", {});
  const bool takes_weight = weight >= 0 && s.tensor(weight).is_constant();
  const Argument* eps = node.find_argument("eps");
  const bool is_given = eps != nullptr && !eps->is_none();
  // torch computes in this precision
  const double margin = is_given                        ? node.float_or("eps", 0)
                        : s.dtype(x) == DType::kFloat64 ? std::numeric_limits<double>::epsilon()
                                                        : std::numeric_limits<float>::epsilon();
  std::vector<int> inputs = {x};
  if (takes_weight) inputs.push_back(weight);
  const int scaled = s.op("rms_norm", inputs, s.sizes(x), s.dtype(x),
                          {{attr::kNormalizedDims, std::ssize(shape)}, {attr::kEps, margin}});
  s.give(weight < 0 || takes_weight ? scaled : s.mul(scaled, weight));
}

// The number of elements of x that are reduced to one.
SizeExpr reduced_count(Steps& s, int x, const std::vector<int64_t>& dims) {
  SizeExpr count = 1;
  for (size_t d = 0; d < s.rank(x); ++d) {
    const bool is_reduced = dims.empty() || std::any_of(dims.begin(), dims.end(), [&](int64_t dim) {
                              return s.dim_of(x, dim) == d;
                            });
    if (is_reduced) count = count * s.sizes(x)[d];
  }
  return count;
}

// The squared distance from the mean, summed and divided by count - correction.
int variance(Steps& s, int x, const std::vector<int64_t>& dims, double correction, int mean) {
  const int centered = s.sub(x, mean);
  const int square = s.mul(centered, centered);
  if (correction == 0) return s.mean(square, dims);
  const int sum = s.reduce("sum", square, dims, true);
  const SizeExpr count = reduced_count(s, x, dims);
  if (count.is_number())
    return s.div(sum,
                 s.number(std::max(static_cast<double>(count.number()) - correction, 0.0), sum));
  const int less = s.sub(s.cast(s.size(count), s.dtype(sum)), s.number(correction, sum));
  return s.div(sum, s.clamp(less, 0.0, std::nullopt));
}

double correction_of(const Node& node) {
  const Argument* correction = node.find_argument("correction");
  if (correction != nullptr && !correction->is_none()) return node.float_or("correction", 1);
  return node.bool_or("unbiased", true) ? 1 : 0;
}

// var, std, var_mean, std_mean
void import_variance(Steps& s, const Node& node) {
  const int x = as_float(s, input_of(s));
  const std::vector<int64_t> dims = dims_of(node);
  const bool is_root = node.target().starts_with("aten.std");
  const int mean = s.mean(x, dims);
  const int spread = variance(s, x, dims, correction_of(node), mean);
  s.give(node.outputs().front(), is_root ? s.unary("sqrt", spread) : spread);
  if (node.outputs().size() > 1) s.give(node.outputs()[1], mean);
}

// (1 - momentum) * running + momentum * now, in the shape of running.
int moved(Steps& s, int running, int now, double momentum) {
  now = s.reshape(now, s.sizes(running));
  return s.add(s.mul(running, s.number(1 - momentum, running)),
               s.mul(now, s.number(momentum, running)));
}

// ---- vector norms

int power_sum_root(Steps& s, int x, double order, const std::vector<int64_t>& dims, bool keepdim) {
  const int size = s.unary("abs", x);
  if (order == INFINITY) return s.reduce("max", size, dims, keepdim);
  if (order == -INFINITY) return s.reduce("min", size, dims, keepdim);
  if (order == 0)
    return s.reduce("sum", s.cast(s.compare("ne", x, s.number(0, x)), s.dtype(x)), dims, keepdim);
  if (order == 1) return s.reduce("sum", size, dims, keepdim);
  if (order == 2) return s.unary("sqrt", s.reduce("sum", s.mul(x, x), dims, keepdim));
  return s.unary("pow", s.reduce("sum", s.unary("pow", size, order), dims, keepdim), 1 / order);
}

void import_vector_norm(Steps& s, const Node& node) {
  const char* order = node.find_argument("p") != nullptr ? "p" : "ord";
  s.give(power_sum_root(s, as_float(s, input_of(s)), node.float_or(order, 2), dims_of(node),
                        node.bool_or("keepdim", false)));
}

// Scales the slices of x along a dimension whose norm is greater than maxnorm.
void import_renorm(Steps& s, const Node& node) {
  const int x = s.self();
  const size_t dim = s.dim_of(x, node.int_or("dim", 0));
  std::vector<int64_t> others;
  for (size_t d = 0; d < s.rank(x); ++d)
    if (d != dim) others.push_back(static_cast<int64_t>(d));
  const int norm = power_sum_root(s, x, node.float_or("p", 2), others, true);
  const int most = s.number(node.float_or("maxnorm", 1), norm);
  const int factor = s.div(most, s.add(norm, s.number(1e-7, norm)));
  s.give(s.mul(x, s.where(s.compare("gt", norm, most), factor, s.number(1, norm))));
}

// x / max(norm, eps), for cosine_similarity and normalize.
int unit_vector(Steps& s, int x, int64_t dim, double eps) {
  const int norm = power_sum_root(s, x, 2, {dim}, true);
  return s.div(x, s.clamp(norm, eps, std::nullopt));
}

void import_cosine_similarity(Steps& s, const Node& node) {
  const int64_t dim = node.int_or("dim", 1);
  const double eps = node.float_or("eps", 1e-8);
  int a = s.operand("x1"), b = s.operand("x2");
  const Sizes both = broadcast(s.sizes(a), s.sizes(b));
  a = s.expand(a, both);
  b = s.expand(b, both);
  const int product = s.mul(unit_vector(s, a, dim, eps), unit_vector(s, b, dim, eps));
  s.give(s.reduce("sum", product, {dim}, false));
}

// The norm of the difference of each pair of rows.
void import_cdist(Steps& s, const Node& node) {
  const int a = s.unsqueeze(s.operand("x1"), -2), b = s.unsqueeze(s.operand("x2"), -4 + 1);
  s.give(power_sum_root(s, s.sub(a, b), node.float_or("p", 2), {-1}, false));
}

void import_pairwise_distance(Steps& s, const Node& node) {
  const int difference = s.sub(s.operand("x1"), s.operand("x2"));
  const int away = s.add(difference, s.number(node.float_or("eps", 1e-6), difference));
  s.give(power_sum_root(s, away, node.float_or("p", 2), {-1}, node.bool_or("keepdim", false)));
}

// ---- other reductions

void import_logsumexp(Steps& s, const Node& node) {
  const int x = as_float(s, input_of(s));
  const std::vector<int64_t> dims = dims_of(node);
  const int most = s.reduce("max", x, dims, true);
  // inf - inf would be NaN
  const int base = s.where(s.compare("eq", s.unary("abs", most), s.number(INFINITY, most)),
                           s.number(0, most), most);
  const int sum = s.reduce("sum", s.unary("exp", s.sub(x, base)), dims, true);
  const int result = s.add(s.unary("log", sum), base);
  s.give(s.reshape(result, s.result_sizes()));
}

void import_truth(Steps& s, const Node& node) {
  const int x = input_of(s);
  if (s.rank(x) == 0) return s.give(s.cast(x, DType::kBool));
  s.give(s.reduce(s.word(), x, dims_of(node), node.bool_or("keepdim", false), DType::kBool));
}

void import_count_nonzero(Steps& s, const Node& node) {
  const int x = input_of(s);
  s.give(s.reduce("sum", s.compare("ne", x, s.number(0, x)), dims_of(node), false, DType::kInt64));
}

// ---- gates

void import_glu(Steps& s, const Node& node) {
  const int x = input_of(s);
  const auto dim = static_cast<int64_t>(s.dim_of(x, node.int_or("dim", -1)));
  const SizeExpr half = floor_divide(s.sizes(x)[static_cast<size_t>(dim)], 2);
  s.give(s.mul(s.slice(x, dim, 0, half), s.unary("sigmoid", s.slice(x, dim, half, half))));
}

void import_log_softmax(Steps& s, const Node&) {
  const int x = as_float(s, input_of(s));
  s.give(s.op("log_softmax", {x}, s.sizes(x), s.dtype(x), s.dim_attribute(x, -1)));
}

// ---- recurrent cells: one step, with its linear layers

int linear(Steps& s, int x, int weight, int bias) {
  Sizes sizes = s.sizes(x);
  sizes.back() = s.sizes(weight)[0];
  return s.op("linear", {x, weight, bias}, sizes, s.dtype(x));
}

// The i-th of `count` equal parts of the last dimension.
int part(Steps& s, int x, int64_t i, int64_t count) {
  const SizeExpr size = floor_divide(s.sizes(x).back(), count);
  return s.slice(x, -1, size * SizeExpr(i), size);
}

struct Gates {
  int of_input;
  int of_state;
};
Gates gates_of(Steps& s, int state) {
  return {linear(s, s.operand("input"), s.operand("w_ih"), s.operand("b_ih")),
          linear(s, state, s.operand("w_hh"), s.operand("b_hh"))};
}

void import_lstm_cell(Steps& s, const Node& node) {
  std::vector<int> state = s.tensors("hx");
  if (state.size() != 2) return s.refuse("without a hidden and a cell state");
  const Gates gates = gates_of(s, state[0]);
  const int all = s.add(gates.of_input, gates.of_state);
  const int in = s.unary("sigmoid", part(s, all, 0, 4)),
            forget = s.unary("sigmoid", part(s, all, 1, 4)),
            cell = s.unary("tanh", part(s, all, 2, 4)),
            out = s.unary("sigmoid", part(s, all, 3, 4));
  const int next = s.add(s.mul(forget, state[1]), s.mul(in, cell));
  s.give(node.outputs()[1], next);
  s.give(node.outputs()[0], s.mul(out, s.unary("tanh", next)));
}

void import_gru_cell(Steps& s, const Node&) {
  const int state = s.operand("hx");
  const Gates gates = gates_of(s, state);
  const auto gate = [&](int64_t i) {
    return s.unary("sigmoid", s.add(part(s, gates.of_input, i, 3), part(s, gates.of_state, i, 3)));
  };
  const int reset = gate(0), update = gate(1);
  const int fresh = s.unary(
      "tanh", s.add(part(s, gates.of_input, 2, 3), s.mul(reset, part(s, gates.of_state, 2, 3))));
  s.give(s.add(fresh, s.mul(update, s.sub(state, fresh))));
}

void import_rnn_cell(Steps& s, const Node& node) {
  const Gates gates = gates_of(s, s.operand("hx"));
  const int sum = s.add(gates.of_input, gates.of_state);
  s.give(node.is("aten.rnn_tanh_cell") ? s.unary("tanh", sum) : s.clamp(sum, 0.0, std::nullopt));
}

// ---- images

void import_grid_sample(Steps& s, const Node& node) {
  static constexpr std::array<const char*, 3> kModes = {"bilinear", "nearest", "bicubic"};
  static constexpr std::array<const char*, 3> kPaddings = {"zeros", "border", "reflection"};
  const int64_t mode = node.int_or("interpolation_mode", 0),
                padding = node.int_or("padding_mode", 0);
  if (mode < 0 || mode > 2 || padding < 0 || padding > 2) return s.refuse("with an unknown mode");
  const int x = input_of(s), grid = s.operand("grid");
  s.give(s.op("grid_sample", {x, grid}, s.result_sizes(), s.dtype(x),
              {{attr::kMode, std::string(kModes[static_cast<size_t>(mode)])},
               {attr::kPaddingMode, std::string(kPaddings[static_cast<size_t>(padding)])},
               {attr::kAlignCorners, node.bool_or("align_corners", false)}}));
}

// Multiplies the positions of the output's pixels, rows of coordinates in [-1, 1] and a one, by
// theta.
void import_affine_grid(Steps& s, const Node& node) {
  const std::vector<int64_t> size = node.ints_or("size", {});
  if (size.size() != 4) return s.refuse("of volumes");
  const bool align = node.bool_or("align_corners", false);
  const auto place = [&](int64_t i, int64_t count) {
    const double span = align ? static_cast<double>(count - 1) : static_cast<double>(count);
    const double at = align ? static_cast<double>(i) : static_cast<double>(i) + 0.5;
    return static_cast<float>(count == 1 && align ? 0 : 2 * at / span - 1);
  };
  std::vector<float> rows;
  for (int64_t y = 0; y < size[2]; ++y)
    for (int64_t x = 0; x < size[3]; ++x)
      rows.insert(rows.end(), {place(x, size[3]), place(y, size[2]), 1.0f});
  const int base = s.add_constant(
      node.name() + "_base", Tensor::from<float>(DType::kFloat32, {size[2] * size[3], 3}, rows));
  s.give(s.reshape(s.matmul(base, s.transpose(s.operand("theta"), -2, -1)), s.result_sizes()));
}

constexpr ImportRow kComposedRows[] = {
    {"aten.rms_norm", import_rms_norm},
    {"aten._fused_rms_norm", import_rms_norm},
    {"aten.var", import_variance},
    {"aten.std", import_variance},
    {"aten.var_mean", import_variance},
    {"aten.std_mean", import_variance},
    {"aten.linalg_vector_norm", import_vector_norm},
    {"aten.norm", import_vector_norm},
    {"aten.frobenius_norm", import_vector_norm},
    {"aten.renorm", import_renorm},
    {"aten.cosine_similarity", import_cosine_similarity},
    {"aten.cdist", import_cdist},
    {"aten._cdist_forward", import_cdist},
    {"aten.pairwise_distance", import_pairwise_distance},
    {"aten.logsumexp", import_logsumexp},
    {"aten.any", import_truth, "any"},
    {"aten.all", import_truth, "all"},
    {"aten.count_nonzero", import_count_nonzero},
    {"aten.glu", import_glu},
    {"aten.log_softmax", import_log_softmax},
    {"aten._log_softmax", import_log_softmax},
    {"aten.lstm_cell", import_lstm_cell},
    {"aten.gru_cell", import_gru_cell},
    {"aten.rnn_tanh_cell", import_rnn_cell},
    {"aten.rnn_relu_cell", import_rnn_cell},
    {"aten.grid_sampler", import_grid_sample},
    {"aten.grid_sampler_2d", import_grid_sample},
    {"aten.grid_sampler_3d", import_grid_sample},
    {"aten.affine_grid_generator", import_affine_grid},
    {"aten.stft", import_stft},  // complex_import_rows, too
};

}  // namespace

void import_own_statistics(Steps& s, const Node& node) {
  const int x = s.operand("input"), weight = s.operand("weight"), bias = s.operand("bias");
  std::vector<int64_t> dims;
  Sizes line(s.rank(x), SizeExpr(1));
  for (size_t d = 0; d < s.rank(x); ++d)
    if (d != 1) dims.push_back(static_cast<int64_t>(d));
  line[1] = s.sizes(x)[1];
  const int mean = s.mean(x, dims), spread = variance(s, x, dims, 0, mean);
  const int inverse = s.unary("rsqrt", s.add(spread, s.number(node.float_or("eps", 1e-5), spread)));
  int y = s.mul(s.sub(x, mean), inverse);
  if (weight >= 0) y = s.mul(y, s.reshape(weight, line));
  if (bias >= 0) y = s.add(y, s.reshape(bias, line));
  const std::vector<Value*> results = node.outputs();
  s.give(results[0], y);
  if (results.size() > 1 && !results[1]->is_unused()) s.give(results[1], mean);
  if (results.size() > 2 && !results[2]->is_unused()) s.give(results[2], inverse);
  const double momentum = node.float_or("momentum", 0.1);
  for (const char* name : {"running_mean", "running_var"}) {
    const int running = s.operand(name);
    if (running < 0) continue;
    const bool is_mean = std::string_view(name) == "running_mean";
    const int now = is_mean ? mean : variance(s, x, dims, 1, mean);
    const int next = moved(s, running, now, momentum);
    if (results.size() == 5)  // functional: the statistics are results
      s.give(results[is_mean ? 3 : 4], next);
    else
      s.write(node.find_input(name), next);
  }
}

std::span<const ImportRow> composed_import_rows() { return kComposedRows; }

}  // namespace octet
