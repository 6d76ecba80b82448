// Implements in-place ops (ViewWrites in importer.h). What an op writes becomes a new tensor for
// the value that it writes into. If that value is a view, the write is passed on to its base; other
// views of the base are imported again if something reads them later.
//
//   %t = transpose(%x, 0, 1)       tensor 1 = permute(0)
//   %v = select(%t, 0, 2)          tensor 2 = slice(1)
//   add_(%v, 1)                    tensor 3 = add(2, 1)           %v is tensor 3 now
//                                  tensor 4 = put_slice(1, 3)     %t: the inverse of select
//                                  tensor 5 = permute(4)          %x: the inverse of transpose
//   return (%x)                    tensor 5
//
// Each op that makes a view has a row in kViews with its inverse (PutBack). reshape and similar ops
// copy some tensors; the strides that the export recorded decide.
#include <algorithm>
#include <set>

#include <ATen/TensorUtils.h>
#include <fmt/format.h>

#include "core/base/error.h"
#include "core/ops/memory.h"
#include "lowering/import/steps.h"

namespace octet {
namespace {

// Replaces the viewed part of the base by `written`; -1 if that cannot be expressed.
using PutBack = int (*)(Steps&, const Node& view, const Value& result, int base, int written);

int put_same(Steps&, const Node&, const Value&, int, int written) { return written; }

// Reshapes to the base; impossible if the view shows the bytes as another dtype.
int put_reshaped(Steps& s, const Node&, const Value&, int base, int written) {
  if (s.dtype(written) != s.dtype(base)) return -1;
  return s.reshape(written, s.sizes(base));
}

int put_permuted(Steps& s, const Node& view, const Value&, int base, int written) {
  const std::vector<int64_t> dims = view.ints_or("dims", {});
  std::vector<int64_t> back(dims.size());
  for (size_t d = 0; d < dims.size(); ++d) back[s.dim_of(base, dims[d])] = static_cast<int64_t>(d);
  return s.permute(written, back);
}

int put_transposed(Steps& s, const Node& view, const Value&, int base, int written) {
  if (s.rank(base) < 2) return written;
  const bool is_last = view.is("aten.mT");
  return s.transpose(written, is_last ? -2 : view.int_or("dim0", 0),
                     is_last ? -1 : view.int_or("dim1", 1));
}

int put_sliced(Steps& s, const Node& view, const Value&, int base, int written) {
  const size_t dim = s.dim_of(base, view.int_or("dim", 0));
  const SliceRange range = slice_range(s, view, s.sizes(base)[dim]);
  return s.put_slice(base, dim, range.start, view.int_or("step", 1), written, range.to_end);
}

int put_selected(Steps& s, const Node& view, const Value&, int base, int written) {
  const size_t dim = s.dim_of(base, view.int_or("dim", 0));
  const SizeExpr at = select_place(s, view, s.sizes(base)[dim]);
  return s.put_slice(base, dim, at, 1, s.unsqueeze(written, static_cast<int64_t>(dim)));
}

// For ops that split a tensor into consecutive parts.
int put_part(Steps& s, const Node& view, const Value& result, int base, int written) {
  const size_t dim = s.dim_of(base, view.int_or("dim", 0));
  const bool is_single = view.is("aten.unbind");
  int64_t start = 0;
  for (const Value* part : view.outputs()) {
    if (part == &result) break;
    if (!is_single && (!part->meta || part->meta->sizes[dim].is_symbolic())) return -1;
    start += is_single ? 1 : part->meta->sizes[dim].value;
  }
  const int source = is_single ? s.unsqueeze(written, static_cast<int64_t>(dim)) : written;
  return s.put_slice(base, dim, start, 1, source);
}

int put_on_diagonal(Steps& s, const Node& view, const Value&, int base, int written) {
  return put_diagonal(s, view, base, written);
}

int put_by_strides(Steps& s, const Node& view, const Value&, int base, int written) {
  return put_strided(s, view, base, written);
}

int put_nowhere(Steps&, const Node&, const Value&, int, int) { return -1; }

// An op whose result shares the memory of its first input, and how to write to it.
struct ViewRow {
  const char* op;
  PutBack put;
};

constexpr ViewRow kViews[] = {
    {"aten.alias", put_same},
    {"aten.detach", put_same},
    {"aten.contiguous", put_same},
    {"aten.dropout", put_same},
    {"aten.to", put_same},
    {"aten.view", put_reshaped},
    {"aten.reshape", put_reshaped},
    {"aten.flatten", put_reshaped},
    {"aten.unflatten", put_reshaped},
    {"aten.unsqueeze", put_reshaped},
    {"aten.squeeze", put_reshaped},
    {"aten.view_as", put_reshaped},
    {"aten.permute", put_permuted},
    {"aten.transpose", put_transposed},
    {"aten.t", put_transposed},
    {"aten.slice", put_sliced},
    {"aten.narrow", put_sliced},
    {"aten.select", put_selected},
    {"aten.split", put_part},
    {"aten.split_with_sizes", put_part},
    {"aten.chunk", put_part},
    {"aten.unbind", put_part},
    {"aten.mT", put_transposed},
    {"aten.ravel", put_reshaped},
    {"aten.reshape_as", put_reshaped},
    {"aten.diagonal", put_on_diagonal},
    {"aten.as_strided", put_by_strides},
    // views whose schemas do not say so
    {"aten.type_as", put_same},
    {"aten.feature_dropout", put_same},
    {"aten.lift_fresh", put_same},
    {"aten.conj_physical", put_same},
    {"aten.atleast_1d", put_reshaped},
    {"aten.atleast_2d", put_reshaped},
    {"aten.atleast_3d", put_reshaped},
    {"aten.unsafe_split", put_part},
    {"aten.unsafe_chunk", put_part},
    {"aten.unsafe_split_with_sizes", put_part},
    {"aten.meshgrid", put_nowhere},
    {"aten.einsum", put_nowhere},
};

PutBack find_view(const Node& node) {
  if (is_in_place(node)) return put_same;
  for (const ViewRow& row : kViews)
    if (node.is(row.op)) return row.put;
  // a view (by its schema) without a row: refuse, so that a write into it is not lost
  const bool is_view = node.target().starts_with("aten.") && !aliased_inputs(node).empty();
  return is_view ? put_nowhere : nullptr;
}

Value* base_of(const Node& view) { return view.inputs().empty() ? nullptr : view.inputs().front(); }

// All values that the node may be a view of; base_of gives the one that can be written to.
std::vector<const Value*> sources_of(const Node& view) {
  const std::vector<const Value*> sources = aliased_inputs(view);
  const std::vector<Value*> inputs = view.inputs();
  return sources.empty() ? std::vector<const Value*>(inputs.begin(), inputs.end()) : sources;
}

bool is_read_after(const Value& value, const Node& node) {
  return value.is_output() ||
         std::any_of(value.users().begin(), value.users().end(), [&](const Node* user) {
           return user != &node && value.graph().is_before(node, *user);
         });
}

// Whether the value or its base is read after the writer, or belongs to the caller.
bool is_shared_later(const Value& value, const Node& writer) {
  if (value.producer() == nullptr || is_read_after(value, writer)) return true;
  if (find_view(*value.producer()) == nullptr) return false;
  const std::vector<const Value*> sources = sources_of(*value.producer());
  return std::any_of(sources.begin(), sources.end(),
                     [&](const Value* source) { return is_shared_later(*source, writer); });
}

// kUnknown: known only at run time.
enum class Sharing { kView, kCopy, kUnknown };

bool has_equal_strides(const TensorMeta& meta, const std::vector<int64_t>& strides) {
  for (size_t d = 0; d < strides.size(); ++d)
    if (meta.sizes[d].value != 1 && meta.strides[d].value != strides[d]) return false;
  return true;
}

// Open sizes count with the sizes of the example, because contiguity does not depend on them.
bool has_values(const std::vector<Dim>& dims) {
  return std::all_of(dims.begin(), dims.end(), [](const Dim& dim) { return dim.value >= 0; });
}

// reshape, flatten and contiguous copy a tensor that is not contiguous, depending on its strides.
Sharing sharing_by_strides(const Node& view, const TensorMeta& base, const TensorMeta& result) {
  if (!has_values(base.sizes) || !has_values(base.strides)) return Sharing::kUnknown;
  const std::vector<int64_t> shape = base.shape(), contiguous = contiguous_strides(shape);
  if (base.strides.size() != shape.size()) return Sharing::kView;  // unknown
  std::vector<int64_t> strides;
  for (const Dim& stride : base.strides) strides.push_back(stride.value);
  if (view.is("aten.contiguous") && result.strides.size() == shape.size())
    return has_equal_strides(result, strides) ? Sharing::kView : Sharing::kCopy;
  if (has_equal_strides(base, contiguous)) return Sharing::kView;
  if (view.is("aten.contiguous") || view.is("aten.ravel")) return Sharing::kCopy;
  if (!has_values(result.sizes)) return Sharing::kUnknown;
  return at::detail::computeStride(shape, strides, result.shape()) ? Sharing::kView
                                                                   : Sharing::kCopy;
}

// Whether the result of an op in kViews is a view of its first input, or a copy.
Sharing sharing_of(const Node& view) {
  const Value* base = base_of(view);
  const std::vector<Value*> results = view.outputs();
  if (view.is("aten.einsum")) return view.inputs().size() > 1 ? Sharing::kCopy : Sharing::kUnknown;
  if (base == nullptr || results.empty() || !base->meta || !results.front()->meta)
    return Sharing::kView;
  const TensorMeta& result = *results.front()->meta;
  if (view.is("aten.to") || view.is("aten.type_as"))
    return base->meta->dtype != result.dtype || view.bool_or("copy", false) ? Sharing::kCopy
                                                                            : Sharing::kView;
  static const char* const kMayCopy[] = {"aten.reshape", "aten.flatten", "aten.contiguous",
                                         "aten.ravel", "aten.reshape_as"};
  return std::any_of(std::begin(kMayCopy), std::end(kMayCopy),
                     [&](const char* op) { return view.is(op); })
             ? sharing_by_strides(view, *base->meta, result)
             : Sharing::kView;
}

}  // namespace

// Passes the write on to all bases of `value`, which becomes the last of them. Returns whether that
// was possible.
bool ViewWrites::write_to(const Node& writer, Value*& value, int tensor) {
  ProgramBuilder& builder = importer_.builder();
  builder.alias(value, tensor);
  const Node* producer = value->producer();
  if (producer == nullptr) {
    if (importer_.is_state(value)) return true;
    Steps(importer_, writer)
        .fail(fmt::format("writes into %{}, an input of the program; make it functional (out "
                          "of place) before the export",
                          value->name()));
  }
  const PutBack put = find_view(*producer);
  Value* base = put == nullptr ? nullptr : base_of(*producer);
  if (base == nullptr) return true;
  const Sharing sharing = sharing_of(*producer);
  if (sharing == Sharing::kCopy ||
      (put == put_same &&
       builder.tensor(builder.tensor_of(base)).dtype != builder.tensor(tensor).dtype))
    return true;
  int whole = -1;
  if (sharing == Sharing::kView) {
    Steps steps(importer_, writer);
    whole = put(steps, *producer, *value, builder.tensor_of(base), tensor);
  }
  if (whole >= 0) {
    value = base;
    return write_to(writer, value, whole);
  }
  const std::vector<const Value*> sources = sources_of(*producer);
  return std::none_of(sources.begin(), sources.end(),
                      [&](const Value* source) { return is_shared_later(*source, writer); });
}

// Imports the views of `root` again that were imported before the writer and are read after it,
// directly or through another view.
void ViewWrites::refresh_views(const Node& writer, const Value* root) {
  std::set<const Value*> shared = {root};
  std::vector<const Node*> views;
  for (const Node* node : importer_.graph().nodes()) {
    if (node == &writer) break;
    if (find_view(*node) == nullptr || sharing_of(*node) == Sharing::kCopy) continue;
    const std::vector<const Value*> sources = sources_of(*node);
    if (std::none_of(sources.begin(), sources.end(),
                     [&](const Value* source) { return shared.contains(source); }))
      continue;
    views.push_back(node);
    for (const Value* result : node->outputs()) shared.insert(result);
  }
  std::set<const Value*> wanted;
  std::vector<const Node*> needed;
  for (auto view = views.rbegin(); view != views.rend(); ++view) {
    const std::vector<Value*> results = (*view)->outputs();
    if (std::none_of(results.begin(), results.end(), [&](const Value* value) {
          return wanted.contains(value) || is_read_after(*value, writer);
        }))
      continue;
    needed.push_back(*view);
    for (const Value* source : sources_of(**view)) wanted.insert(source);
  }
  for (auto view = needed.rbegin(); view != needed.rend(); ++view) {
    if (sharing_of(**view) == Sharing::kUnknown)
      return importer_.refusals().add_refusal(
          writer,
          fmt::format("writes into what %{} may be a copy of, or a view; make it out of "
                      "place before the export",
                      (*view)->name()),
          RefusalKind::kWrite);
    if (is_in_place(**view))
      importer_.builder().alias((*view)->outputs().front(),
                                importer_.builder().tensor_of(base_of(**view)));
    else
      importer_.import_node(**view);
  }
}

void ViewWrites::write_back(const Node& node) {
  Value* written = base_of(node);
  if (written == nullptr) return;
  ProgramBuilder& builder = importer_.builder();
  write(node, written, builder.tensor_of(node.outputs().front()));
  builder.alias(node.outputs().front(), builder.tensor_of(written));
}

void ViewWrites::write(const Node& node, Value* written, int tensor) {
  Value* root = written;
  if (!write_to(node, root, tensor))
    return importer_.refusals().add_refusal(
        node,
        fmt::format("writes into a view of %{} that has no inverse; make it out "
                    "of place before the export",
                    written->name()),
        RefusalKind::kWrite);
  refresh_views(node, root);
}

}  // namespace octet
