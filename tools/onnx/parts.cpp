// Some of a tensor's elements: slices, single places, pieces.
#include <algorithm>
#include <limits>

#include "tools/onnx/steps.h"

namespace octet {
namespace {

constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();

std::string sliced(OnnxSteps& s, const std::string& x, const std::string& start,
                   const std::string& end, int64_t dim, int64_t step = 1) {
  return s.op("Slice", {x, start, end, s.ints({dim}), step == 1 ? "" : s.ints({step})});
}

void convert_slice(OnnxSteps& s) {
  const int64_t dim = static_cast<int64_t>(s.dim_of(s.self(), s.node.int_or("dim", 0)));
  const int64_t step = s.node.int_or("step", 1);
  const bool is_whole = s.node.find_input("start") == nullptr && s.node.int_or("start", 0) == 0 &&
                        s.node.find_input("end") == nullptr && s.node.int_or("end", kEnd) == kEnd;
  if (is_whole && step == 1) return s.give(s.x());
  const std::string start = s.has("start") ? s.size("start", 0) : s.ints({0});
  const std::string end = s.has("end") ? s.size("end", kEnd) : s.ints({kEnd});
  s.give(sliced(s, s.x(), start, end, dim, step));
}

void convert_narrow(OnnxSteps& s) {
  const int64_t dim = static_cast<int64_t>(s.dim_of(s.self(), s.node.int_or("dim", 0)));
  const std::string start = s.size("start", 0), length = s.size("length", 0);
  s.give(sliced(s, s.x(), start, s.add(start, length), dim));
}

std::string at(OnnxSteps& s, const std::string& x, int64_t index, int64_t dim) {
  return s.op("Gather", {x, s.number(static_cast<double>(index), DType::kInt64)}, {{"axis", dim}});
}

void convert_select(OnnxSteps& s) {
  const int64_t dim = static_cast<int64_t>(s.dim_of(s.self(), s.node.int_or("dim", 0)));
  if (s.node.find_input("index") == nullptr)
    return s.give(at(s, s.x(), s.node.int_or("index", 0), dim));
  const std::string index = s.squeeze(s.size("index", 0), {0});
  s.give(s.op("Gather", {s.x(), index}, {{"axis", dim}}));
}

void convert_unbind(OnnxSteps& s) {
  const int64_t dim = static_cast<int64_t>(s.dim_of(s.self(), s.node.int_or("dim", 0)));
  int64_t index = 0;
  for (const Value* value : s.node.outputs()) s.give(value, at(s, s.x(), index++, dim));
}

// split, split_with_sizes, chunk, tensor_split: the recorded sizes say how long the pieces are.
void convert_split(OnnxSteps& s) {
  const size_t dim = s.dim_of(s.self(), s.node.int_or("dim", 0));
  std::vector<int64_t> lengths;
  for (const Value* value : s.node.outputs()) {
    const std::optional<int64_t> length = s.fixed_size(value, dim);
    if (!length) return;
    lengths.push_back(*length);
  }
  const Names pieces = s.ops("Split", lengths.size(), {s.x(), s.ints(lengths)},
                             {{"axis", static_cast<int64_t>(dim)}});
  for (size_t i = 0; i < pieces.size(); ++i) s.give(s.node.outputs()[i], pieces[i]);
}

void convert_flip(OnnxSteps& s) {
  std::vector<int64_t> dims = s.node.ints_or("dims", {});
  for (int64_t& dim : dims) dim = static_cast<int64_t>(s.dim_of(s.self(), dim));
  const std::vector<int64_t> starts(dims.size(), -1), steps(dims.size(), -1);
  const std::vector<int64_t> ends(dims.size(), std::numeric_limits<int64_t>::min());
  s.give(s.op("Slice", {s.x(), s.ints(starts), s.ints(ends), s.ints(dims), s.ints(steps)}));
}

// What moves out at the end comes in at the front.
void convert_roll(OnnxSteps& s) {
  const std::vector<int64_t> shifts = s.node.ints_or("shifts", {}),
                             dims = s.node.ints_or("dims", {});
  if (dims.size() != shifts.size()) return s.refuse("of all dimensions as one");
  std::string x = s.x();
  for (size_t i = 0; i < dims.size(); ++i) {
    const size_t d = s.dim_of(s.self(), dims[i]);
    const std::optional<int64_t> size = s.fixed_size(s.self(), d);
    if (!size) return;
    const int64_t dim = static_cast<int64_t>(d);
    const int64_t cut = *size == 0 ? 0 : ((*size - shifts[i]) % *size + *size) % *size;
    if (cut == 0) continue;
    const std::string tail = sliced(s, x, s.ints({cut}), s.ints({kEnd}), dim);
    x = s.op("Concat", {tail, sliced(s, x, s.ints({0}), s.ints({cut}), dim)}, {{"axis", dim}});
  }
  s.give(x);
}

// One half weighed by the sigmoid of the other.
void convert_glu(OnnxSteps& s) {
  const size_t dim = s.dim_of(s.self(), s.node.int_or("dim", -1));
  const std::optional<int64_t> size = s.fixed_size(s.self(), dim);
  if (!size) return;
  const Names halves = s.ops("Split", 2, {s.x(), s.ints({*size / 2, *size / 2})},
                             {{"axis", static_cast<int64_t>(dim)}});
  s.give(s.mul(halves[0], s.op("Sigmoid", {halves[1]})));
}

void give_triangle(OnnxSteps& s, bool is_upper) {
  const std::string k = s.number(static_cast<double>(s.node.int_or("diagonal", 0)), DType::kInt64);
  s.give(s.op("Trilu", {s.x(), k}, {{"upper", int64_t{is_upper}}}));
}
void convert_tril(OnnxSteps& s) { give_triangle(s, false); }
void convert_triu(OnnxSteps& s) { give_triangle(s, true); }

// `src` in the place of a slice, or of one element, of a dimension.
void convert_slice_scatter(OnnxSteps& s) {
  const size_t d = s.dim_of(s.self(), s.node.int_or("dim", 0));
  const std::optional<int64_t> size = s.fixed_size(s.self(), d);
  if (!size) return;
  if (s.node.int_or("step", 1) != 1) return s.refuse("with a step");
  const auto place = [&](const char* name, int64_t fallback) {
    const int64_t index = s.node.int_or(name, fallback);
    return std::clamp<int64_t>(index < 0 ? index + *size : index, 0, *size);
  };
  const int64_t start = place("start", 0), end = place("end", kEnd);
  const int64_t dim = static_cast<int64_t>(d);
  Names parts;
  if (start > 0) parts.push_back(sliced(s, s.x(), s.ints({0}), s.ints({start}), dim));
  parts.push_back(s.input("src"));
  if (end < *size) parts.push_back(sliced(s, s.x(), s.ints({end}), s.ints({kEnd}), dim));
  s.give(s.op("Concat", parts, {{"axis", dim}}));
}

constexpr OnnxRow kPartRows[] = {
    {"aten.slice", convert_slice},
    {"aten.narrow", convert_narrow},
    {"aten.select", convert_select},
    {"aten.unbind", convert_unbind},
    {"aten.split", convert_split},
    {"aten.split_with_sizes", convert_split},
    {"aten.chunk", convert_split},
    {"aten.unsafe_split", convert_split},
    {"aten.unsafe_split_with_sizes", convert_split},
    {"aten.unsafe_chunk", convert_split},
    {"aten.tensor_split", convert_split},
    {"aten.flip", convert_flip},
    {"aten.roll", convert_roll},
    {"aten.glu", convert_glu},
    {"aten.tril", convert_tril},
    {"aten.triu", convert_triu},
    {"aten.slice_scatter", convert_slice_scatter},
};

}  // namespace

std::span<const OnnxRow> part_onnx_rows() { return kPartRows; }

}  // namespace octet
