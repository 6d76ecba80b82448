// Writes ops that reshape, reorder, select, join and repeat elements.
#include <algorithm>
#include <limits>

#include "tools/onnx/steps.h"

namespace octet {
namespace {

void write_copy(OnnxSteps& s) { s.give(s.x()); }

// Writes a slice of one element and the reshape that drops its dimension as one node; false for
// other reshapes.
bool give_selected(OnnxSteps& s) {
  const ProgramOp* slice = s.producer(0, "slice");
  if (slice == nullptr) return false;
  OnnxSteps front(s.writer, *slice);
  const auto dim = static_cast<size_t>(front.dim(front.rank()));
  std::vector<SizeExpr> sizes = sizes_of(s.in());
  if (!(sizes[dim] == SizeExpr(1))) return false;
  sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(dim));
  if (sizes != sizes_of(s.out())) return false;
  const SizeExpr start = front.size_attribute(attr::kStart);
  const std::string index = start.is_number()
                                ? s.number(static_cast<double>(start.number()), DType::kInt64)
                                : s.squeeze(s.size(start), {0});
  s.give(s.op("Gather", {front.x(), index}, {{"axis", static_cast<int64_t>(dim)}}));
  return true;
}

void write_reshape(OnnxSteps& s) {
  if (!give_selected(s)) s.give(s.reshaped(s.x(), s.in(), s.out()));
}

void write_permute(OnnxSteps& s) { s.give(s.transpose(s.x(), s.dims())); }

// torch ignores tensors of shape [0].
void write_cat(OnnxSteps& s) {
  Names parts;
  for (size_t i = 0; i < s.source.inputs.size(); ++i) {
    const bool is_nothing = s.in(i).shape == std::vector<int64_t>{0} && s.in(i).sizes.empty() &&
                            s.out().shape.size() != 1;
    if (!is_nothing) parts.push_back(s.x(i, s.dtype()));
  }
  s.give(s.concat(std::move(parts), s.dim(s.out().shape.size())));
}

void write_slice(OnnxSteps& s) {
  const int64_t dim = s.dim(s.rank()), step = s.source.get(attr::kStep);
  const SizeExpr start = s.size_attribute(attr::kStart),
                 size = sizes_of(s.out())[static_cast<size_t>(dim)];
  if (start == SizeExpr(0) && step == 1 && size == sizes_of(s.in())[static_cast<size_t>(dim)])
    return s.give(s.x());
  s.give(s.slice(s.x(), s.size(start), s.size(start + size * SizeExpr(step)), dim, step));
}

void write_expand(OnnxSteps& s) {
  const std::string x = s.x(0, s.dtype());
  const bool is_same = sizes_of(s.in()) == sizes_of(s.out());
  s.give(is_same ? x : s.op("Expand", {x, s.sizes(sizes_of(s.out()))}));
}

void write_flip(OnnxSteps& s) {
  const std::vector<int64_t> dims = s.dims();
  const std::vector<int64_t> starts(dims.size(), -1), steps(dims.size(), -1);
  const std::vector<int64_t> ends(dims.size(), std::numeric_limits<int64_t>::min());
  s.give(s.op("Slice", {s.x(), s.ints(starts), s.ints(ends), s.ints(dims), s.ints(steps)}));
}

// ONNX lists the padding of all beginnings, then of all ends.
void write_pad(OnnxSteps& s) {
  if (s.source.sizes.contains("pads")) return s.refuse("by numbers that are not fixed");
  const std::vector<int64_t> given = s.source.get(attr::kPads);
  std::vector<int64_t> pads(given.size());
  for (size_t i = 0; i < given.size(); ++i) pads[i / 2 + i % 2 * (given.size() / 2)] = given[i];
  s.give(s.op("Pad", {s.x(), s.ints(pads), s.number(s.source.get(attr::kValue))},
              {{"mode", std::string("constant")}}));
}

void write_size(OnnxSteps& s) {
  s.give(s.squeeze(s.size(s.size_attribute(attr::kSizeValue)), {0}));
}

constexpr OnnxRow kShapeRows[] = {
    {"copy", write_copy}, {"reshape", write_reshape}, {"permute", write_permute},
    {"cat", write_cat},   {"slice", write_slice},     {"expand", write_expand},
    {"flip", write_flip}, {"pad", write_pad},         {"size", write_size},
};

}  // namespace

std::span<const OnnxRow> shape_onnx_rows() { return kShapeRows; }

}  // namespace octet
