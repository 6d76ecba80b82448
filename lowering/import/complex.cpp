// Imports complex values as two real tensors; no Program op knows that they belong together.
// Fourier transforms become products with constant matrices, so the sizes along them must be fixed.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "lowering/import/steps.h"

namespace octet {
namespace {

using Parts = ComplexParts;

Value* complex_input(const Node& node) {
  Value* self = node.find_input("self");
  return self == nullptr ? node.find_input("input") : self;
}

// ---- Fourier transforms

enum class Spectrum { kWhole, kHalf };  // kHalf: of real input, the first n / 2 + 1 of n

struct TransformRow {
  std::string_view op;
  bool is_inverse;
  Spectrum spectrum;
};

constexpr TransformRow kTransforms[] = {
    {"aten.fft_fft", false, Spectrum::kWhole},  {"aten.fft_fft2", false, Spectrum::kWhole},
    {"aten.fft_fftn", false, Spectrum::kWhole}, {"aten.fft_ifft", true, Spectrum::kWhole},
    {"aten.fft_ifft2", true, Spectrum::kWhole}, {"aten.fft_ifftn", true, Spectrum::kWhole},
    {"aten.fft_rfft", false, Spectrum::kHalf},  {"aten.fft_rfft2", false, Spectrum::kHalf},
    {"aten.fft_rfftn", false, Spectrum::kHalf}, {"aten.fft_irfft", true, Spectrum::kHalf},
    {"aten.fft_irfft2", true, Spectrum::kHalf}, {"aten.fft_irfftn", true, Spectrum::kHalf},
};

// One dimension of a transform of `size` elements (of the real side, for half a spectrum).
struct Line {
  int64_t dim, size;
  int64_t given;  // elements of the input that are used; zeros fill up the others
  bool is_inverse;
  Spectrum spectrum;
  double factor;
};

// The size of an input that is neither cut nor filled up.
int64_t input_size(int64_t size, bool is_inverse, Spectrum spectrum) {
  return spectrum == Spectrum::kHalf && is_inverse ? size / 2 + 1 : size;
}

// Matrices [given, to] of the cosines and sines of 2 pi i j / size, times the factor. For the
// inverse of half a spectrum the elements in the middle count twice.
struct Waves {
  int cosines = -1;
  int sines = -1;  // -1 where they are not wanted
};
Waves make_waves(Steps& s, const Node& node, const Line& line, bool wants_sines) {
  const bool is_half = line.spectrum == Spectrum::kHalf;
  const int64_t from = line.given, to = is_half && !line.is_inverse ? line.size / 2 + 1 : line.size;
  const Tensor cosines = Tensor::zeros(DType::kFloat32, {from, to}),
               sines = Tensor::zeros(DType::kFloat32, {from, to});
  for (int64_t i = 0; i < from; ++i) {
    const bool is_twice = is_half && line.is_inverse && i > 0 && 2 * i != line.size;
    for (int64_t j = 0; j < to; ++j) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(i * j % line.size) /
                           static_cast<double>(line.size);
      const double factor = line.factor * (is_twice ? 2 : 1);
      cosines.data<float>()[i * to + j] = static_cast<float>(factor * std::cos(angle));
      sines.data<float>()[i * to + j] = static_cast<float>(factor * std::sin(angle));
    }
  }
  return {s.add_constant(node.name() + "_cosines", cosines),
          wants_sines ? s.add_constant(node.name() + "_sines", sines) : -1};
}

// Multiplies (re + i im) by (cosines -+ i sines) along one dimension. imaginary: -1 if it is 0 or
// not wanted.
Parts transform_line(Steps& s, const Node& node, Parts x, const Line& line, bool wants_imaginary) {
  const auto [cosines, sines] = make_waves(s, node, line, wants_imaginary || x.imaginary >= 0);
  const auto turned = [&](int part) { return part < 0 ? -1 : s.transpose(part, line.dim, -1); };
  const auto cut = [&](int part) { return part < 0 ? -1 : s.slice(part, line.dim, 0, line.given); };
  // a 1-dimensional input becomes a matrix of one row
  const auto product = [&](int part, int matrix) {
    if (s.rank(part) > 1) return s.matmul(part, matrix);
    const int row = s.matmul(s.unsqueeze(part, 0), matrix);
    return s.reshape(row, Sizes{s.sizes(row).back()});
  };
  const Parts t = {turned(cut(x.real)), turned(cut(x.imaginary))};
  Parts y = {product(t.real, cosines), -1};
  if (t.imaginary >= 0) {
    const int cross = product(t.imaginary, sines);
    y.real = line.is_inverse ? s.sub(y.real, cross) : s.add(y.real, cross);
  }
  if (wants_imaginary) {
    const int cross = product(t.real, sines);
    if (t.imaginary < 0) {
      y.imaginary = line.is_inverse ? cross : s.unary("neg", cross);
    } else {
      const int straight = product(t.imaginary, cosines);
      y.imaginary = line.is_inverse ? s.add(straight, cross) : s.sub(straight, cross);
    }
  }
  return {turned(y.real), turned(y.imaginary)};
}

double factor_of(const Node& node, const TransformRow& row, int64_t size) {
  const std::string norm = text_argument(node, "norm");
  const std::string_view word = norm.empty() ? "backward" : std::string_view(norm);
  const auto count = static_cast<double>(size);
  if (word == "ortho") return 1 / std::sqrt(count);
  return (word == "forward") != row.is_inverse ? 1 / count : 1;
}

// The transformed dimensions; the dimension of half a spectrum is last.
std::vector<int64_t> transformed_dims(const Node& node, const TransformRow& row, size_t rank,
                                      size_t sizes) {
  std::vector<int64_t> dims;
  if (is_given(node, "dim")) {
    dims = node.ints_or("dim", {});
  } else if (row.op.ends_with('2')) {
    dims = {-2, -1};
  } else if (row.op.ends_with('n')) {
    dims.resize(sizes > 0 ? sizes : rank);
    std::iota(dims.begin(), dims.end(), -static_cast<int64_t>(dims.size()));
  } else {
    dims = {-1};
  }
  for (int64_t& dim : dims) dim = positive_dim(dim, rank);
  return dims;
}

void import_transform(Steps& s, const Node& node) {
  const TransformRow& row =
      *std::find_if(std::begin(kTransforms), std::end(kTransforms),
                    [&](const TransformRow& candidate) { return node.is(candidate.op); });
  const std::optional<Parts> given = s.parts_of(complex_input(node));
  if (!given) return s.refuse("of another dtype than complex64 and float32");
  Parts x = *given;
  const Sizes sizes = s.sizes(x.real);
  const char* name = node.find_argument("s") != nullptr ? "s" : "n";
  const std::vector<int64_t> wanted = node.ints_or(name, {});
  const std::vector<int64_t> dims = transformed_dims(node, row, sizes.size(), wanted.size());
  std::vector<Line> lines;
  for (size_t i = 0; i < dims.size(); ++i) {
    const SizeExpr& size = sizes[static_cast<size_t>(dims[i])];
    const bool is_last = i + 1 == dims.size();
    if (!size.is_number()) return s.refuse("along a dimension whose size is not fixed");
    const Spectrum spectrum = is_last ? row.spectrum : Spectrum::kWhole;
    const bool is_halved = spectrum == Spectrum::kHalf && row.is_inverse;
    int64_t length = is_halved ? 2 * (size.number() - 1) : size.number();
    if (i < wanted.size() && wanted[i] != -1) length = wanted[i];  // -1: the size of the input
    if (length < 1) return s.refuse("of no elements");
    lines.push_back({dims[i], length,
                     std::min(size.number(), input_size(length, row.is_inverse, spectrum)),
                     row.is_inverse, spectrum, factor_of(node, row, length)});
  }
  if (row.spectrum == Spectrum::kHalf && !row.is_inverse) std::reverse(lines.begin(), lines.end());
  Value* result = node.outputs().front();
  const bool is_real = !is_complex(result->meta->dtype);
  const bool is_real_read =
      is_real || std::all_of(result->users().begin(), result->users().end(),
                             [](const Node* user) { return user->is("aten.real"); });
  for (size_t i = 0; i < lines.size(); ++i)
    x = transform_line(s, node, x, lines[i], i + 1 < lines.size() || !is_real_read);
  is_real ? s.give(x.real) : s.give_parts(result, x);
}

// ---- to and from reals

void import_real_part(Steps& s, const Node& node) {
  const std::optional<Parts> x = s.parts_of(complex_input(node));
  if (!x) return s.refuse("of complex numbers");
  s.give(x->real);
}

int imaginary(Steps& s, const Parts& x) {
  return x.imaginary >= 0 ? x.imaginary : s.expand(s.number(0, x.real), s.sizes(x.real));
}

void import_imaginary_part(Steps& s, const Node& node) {
  const std::optional<Parts> x = s.parts_of(complex_input(node));
  if (!x) return s.refuse("of complex numbers");
  s.give(imaginary(s, *x));
}

void import_view_as_real(Steps& s, const Node& node) {
  const std::optional<Parts> x = s.parts_of(complex_input(node));
  if (!x) return s.refuse("of complex numbers");
  s.give(s.cat({s.unsqueeze(x->real, -1), s.unsqueeze(imaginary(s, *x), -1)}, -1));
}

void import_view_as_complex(Steps& s, const Node& node) {
  const int x = s.operand("self");
  if (s.dtype(x) != DType::kFloat32) return s.refuse("of another dtype than float32");
  Sizes sizes = s.sizes(x);
  sizes.pop_back();
  s.give_parts(node.outputs().front(),
               {s.reshape(s.slice(x, -1, 0, 1), sizes), s.reshape(s.slice(x, -1, 1, 1), sizes)});
}

void import_complex(Steps& s, const Node& node) {
  const int real = s.operand("real"), other = s.operand("imag");
  if (s.dtype(real) != DType::kFloat32) return s.refuse("of another dtype");
  const Sizes sizes = broadcast(s.sizes(real), s.sizes(other));
  s.give_parts(node.outputs().front(), {s.expand(real, sizes), s.expand(other, sizes)});
}

void import_magnitude(Steps& s, const Node& node) {
  const std::optional<Parts> x = s.parts_of(complex_input(node));
  if (!x) return s.refuse("of complex numbers");
  if (x->imaginary < 0) return s.give(s.unary("abs", x->real));
  s.give(s.unary("sqrt", s.add(s.mul(x->real, x->real), s.mul(x->imaginary, x->imaginary))));
}

// ---- arithmetic

void import_conjugate(Steps& s, const Node& node) {
  const std::optional<Parts> x = s.parts_of(complex_input(node));
  if (!x) return s.refuse("of complex numbers");
  s.give_parts(node.outputs().front(),
               {x->real, x->imaginary < 0 ? -1 : s.unary("neg", x->imaginary)});
}

// The parts of an operand that is a tensor or a number.
std::optional<Parts> operand_parts(Steps& s, const Node& node, const char* name) {
  Value* value = node.find_input(name);
  return value == nullptr ? Parts{s.input(name), -1} : s.parts_of(value);
}

void import_complex_product(Steps& s, const Node& node) {
  const std::optional<Parts> a = operand_parts(s, node, "self"),
                             b = operand_parts(s, node, "other");
  if (!a || !b) return s.refuse("of complex numbers");
  const auto product = [&](int x, int y) { return x < 0 || y < 0 ? -1 : s.mul(x, y); };
  const auto sum = [&](int x, int y) { return x < 0 ? y : y < 0 ? x : s.add(x, y); };
  const int cross = product(a->imaginary, b->imaginary), straight = s.mul(a->real, b->real);
  s.give_parts(node.outputs().front(),
               {cross < 0 ? straight : s.sub(straight, cross),
                sum(product(a->real, b->imaginary), product(a->imaginary, b->real))});
}

void import_complex_sum(Steps& s, const Node& node) {
  const std::optional<Parts> a = operand_parts(s, node, "self"),
                             b = operand_parts(s, node, "other");
  if (!a || !b || node.float_or("alpha", 1) != 1) return s.refuse("of complex numbers");
  const bool is_sum = node.is("aten.add");
  const Sizes sizes = broadcast(s.sizes(a->real), s.sizes(b->real));
  const auto joined = [&](int x, int y) { return is_sum ? s.add(x, y) : s.sub(x, y); };
  Parts y = {joined(a->real, b->real), -1};
  if (a->imaginary >= 0 || b->imaginary >= 0)
    y.imaginary = s.expand(joined(imaginary(s, *a), imaginary(s, *b)), sizes);
  s.give_parts(node.outputs().front(), y);
}

constexpr ImportRow kComplexRows[] = {
    {"aten.real", import_real_part},
    {"aten.imag", import_imaginary_part},
    {"aten.view_as_real", import_view_as_real},
    {"aten.view_as_complex", import_view_as_complex},
    {"aten.complex", import_complex},
    {"aten.abs", import_magnitude},
    {"aten.stft", import_stft},
    {"aten.istft", import_istft},
    {"aten.conj", import_conjugate},
    {"aten._conj", import_conjugate},
    {"aten.conj_physical", import_conjugate},
    {"aten.mul", import_complex_product},
    {"aten.add", import_complex_sum},
    {"aten.sub", import_complex_sum},
};

// The real (first = 0) or imaginary (first = 1) parts of c64 elements.
Tensor part_of(const Tensor& complex, int64_t first) {
  const Tensor whole = complex.contiguous();
  const Tensor part = Tensor::zeros(DType::kFloat32, whole.shape());
  const float* elements = reinterpret_cast<const float*>(whole.raw());
  for (int64_t i = 0; i < part.numel(); ++i) part.data<float>()[i] = elements[2 * i + first];
  return part;
}

}  // namespace

std::optional<ComplexParts> Steps::parts_of(Value* value) {
  if (value == nullptr || !value->meta) return std::nullopt;
  if (!is_complex(value->meta->dtype)) {
    const int tensor = tensor_of(value);
    return dtype(tensor) == DType::kFloat32 ? std::optional<ComplexParts>({tensor, -1})
                                            : std::nullopt;
  }
  auto& known = builder().complex();
  if (const auto found = known.find(value); found != known.end()) return found->second;
  const Tensor* constant = find_fixed_constant(value);
  if (constant == nullptr || constant->dtype() != DType::kComplex64) return std::nullopt;
  return known[value] = {add_constant(value->name() + "_real", part_of(*constant, 0)),
                         add_constant(value->name() + "_imaginary", part_of(*constant, 1))};
}

std::span<const ImportRow> complex_import_rows() {
  static const std::vector<ImportRow> rows = [] {
    std::vector<ImportRow> all(std::begin(kComplexRows), std::end(kComplexRows));
    for (const TransformRow& row : kTransforms) all.push_back({row.op.data(), import_transform});
    return all;
  }();
  return rows;
}

}  // namespace octet
