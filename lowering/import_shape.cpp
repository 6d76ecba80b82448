// Views, copies and data movement; constants that the graph makes itself.
#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "core/error.h"
#include "lowering/importer.h"

namespace octet {
namespace {

int self_of(Importer& importer, const Node& node) { return importer.operand(node, node.find_argument("self") != nullptr ? "self" : "input"); }

// ---- the same elements in the same order

void import_reshape(Importer& importer, const Node& node) { importer.emit(node, "reshape", {self_of(importer, node)}); }

void import_alias(Importer& importer, const Node& node) { importer.alias(node.outputs().front(), self_of(importer, node)); }

void import_dropout(Importer& importer, const Node& node) {
  if (node.bool_or("train", false) && node.float_or("p", 0) != 0) return importer.refuse(node, "in training mode; export in eval mode");
  import_alias(importer, node);
}

void import_nothing(Importer&, const Node&) {}

void import_cast(Importer& importer, const Node& node) {
  const int x = self_of(importer, node);
  const Value* value = node.outputs().front();
  static_shape(*value);
  value->meta->dtype == importer.tensor(x).dtype ? import_alias(importer, node) : static_cast<void>(importer.emit(node, "cast", {x}));
}

// ---- the same elements in another order

void import_permute(Importer& importer, const Node& node) {
  std::vector<int64_t> dims = node.ints_or("dims", {});
  for (int64_t& dim : dims) dim = positive_dim(dim, dims.size());
  importer.emit(node, "permute",
                {
                    importer.operand(node, "self")
  },
                {{"dims", dims}});
}

void import_transpose(Importer& importer, const Node& node) {
  const size_t rank = importer.input_shape(node, "self").size();
  std::vector<int64_t> dims(rank);
  std::iota(dims.begin(), dims.end(), 0);
  if (rank >= 2)
    std::swap(dims[static_cast<size_t>(positive_dim(node.int_or("dim0", 0), rank))],
              dims[static_cast<size_t>(positive_dim(node.int_or("dim1", 1), rank))]);
  importer.emit(node, "permute",
                {
                    importer.operand(node, "self")
  },
                {{"dims", dims}});
}

// [N, C*r*r, H, W] -> [N, C, H*r, W*r]
void import_pixel_shuffle(Importer& importer, const Node& node) {
  const int x = importer.operand(node, "self");
  const std::vector<int64_t> s = importer.tensor(x).shape;
  const DType dtype = importer.tensor(x).dtype;
  const int64_t r = node.int_or("upscale_factor", 1);
  if (s.size() != 4) return importer.refuse(node, "of an input that has not 4 dimensions");
  const int64_t channels = s[1] / (r * r);
  const int split = importer.emit_step(node, "reshape", {x}, {s[0], channels, r, r, s[2], s[3]}, dtype);
  const int moved = importer.emit_step(node, "permute",
                                       {
                                           split
  },
                                       {s[0], channels, s[2], r, s[3], r}, dtype, {{"dims", std::vector<int64_t>{0, 1, 4, 2, 5, 3}}});
  importer.emit(node, "reshape", {moved});
}

// ---- some of the elements

void emit_slice(Importer& importer, const Node& node, Value* value, int x, int64_t dim, int64_t start, int64_t step = 1) {
  importer.emit_value(node, value, "slice",
                      {
                          x
  },
                      {{"dim", dim}, {"start", start}, {"step", step}});
}

int64_t clamped_index(int64_t index, int64_t size) { return std::clamp<int64_t>(index < 0 ? index + size : index, 0, size); }

void import_slice(Importer& importer, const Node& node) {
  const int x = importer.operand(node, "self");
  const std::vector<int64_t> shape = importer.tensor(x).shape;
  const int64_t dim = positive_dim(node.int_or("dim", 0), shape.size());
  emit_slice(importer, node, node.outputs().front(), x, dim, clamped_index(node.int_or("start", 0), shape[static_cast<size_t>(dim)]),
             node.int_or("step", 1));
}

void import_narrow(Importer& importer, const Node& node) {
  const int x = importer.operand(node, "self");
  const std::vector<int64_t> shape = importer.tensor(x).shape;
  const int64_t dim = positive_dim(node.int_or("dim", 0), shape.size());
  emit_slice(importer, node, node.outputs().front(), x, dim, clamped_index(node.int_or("start", 0), shape[static_cast<size_t>(dim)]));
}

void import_select(Importer& importer, const Node& node) {
  const int x = importer.operand(node, "self");
  std::vector<int64_t> shape = importer.tensor(x).shape;
  const int64_t dim = positive_dim(node.int_or("dim", 0), shape.size());
  const int64_t index = node.int_or("index", 0);
  const int64_t start = index < 0 ? index + shape[static_cast<size_t>(dim)] : index;
  shape[static_cast<size_t>(dim)] = 1;
  const DType dtype = importer.tensor(x).dtype;
  const int taken = importer.emit_step(node, "slice",
                                       {
                                           x
  },
                                       shape, dtype, {{"dim", dim}, {"start", start}, {"step", int64_t{1}}});
  importer.emit(node, "reshape", {taken});
}

// split, split_with_sizes, chunk: each result follows the one before; its recorded size says how long it is.
void import_split(Importer& importer, const Node& node) {
  const int x = importer.operand(node, "self");
  const int64_t dim = positive_dim(node.int_or("dim", 0), importer.tensor(x).shape.size());
  int64_t start = 0;
  for (Value* value : node.outputs()) {
    emit_slice(importer, node, value, x, dim, start);
    start += static_shape(*value)[static_cast<size_t>(dim)];
  }
}

void import_unbind(Importer& importer, const Node& node) {
  const int x = importer.operand(node, "self");
  std::vector<int64_t> shape = importer.tensor(x).shape;
  const DType dtype = importer.tensor(x).dtype;
  const int64_t dim = positive_dim(node.int_or("dim", 0), shape.size());
  shape[static_cast<size_t>(dim)] = 1;
  int64_t start = 0;
  for (Value* value : node.outputs()) {
    const int taken = importer.emit_step(node, "slice",
                                         {
                                             x
    },
                                         shape, dtype, {{"dim", dim}, {"start", start++}, {"step", int64_t{1}}});
    importer.emit_value(node, value, "reshape", {taken});
  }
}

void import_embedding(Importer& importer, const Node& node) {
  importer.emit(node, "embedding", {importer.operand(node, "weight"), importer.operand(node, "indices")});
}

// ---- more elements

std::vector<int> tensor_list(Importer& importer, const Node& node) {
  std::vector<int> tensors;
  if (const Argument* argument = node.find_argument("tensors"); argument != nullptr)
    for_each_value(*argument, [&](Value* value) { tensors.push_back(importer.tensor_of(value)); });
  return tensors;
}

void import_cat(Importer& importer, const Node& node) {
  std::vector<int> inputs = tensor_list(importer, node);
  std::erase_if(inputs, [&](int index) { return importer.tensor(index).shape == std::vector<int64_t>{0}; });  // torch skips these
  const std::vector<int64_t> out = static_shape(*node.outputs().front());
  importer.emit(node, "cat", inputs,
                {
                    {"dim", positive_dim(node.int_or("dim", 0), out.size())}
  });
}

void import_stack(Importer& importer, const Node& node) {
  const std::vector<int64_t> out = static_shape(*node.outputs().front());
  const int64_t dim = positive_dim(node.int_or("dim", 0), out.size());
  std::vector<int> inputs;
  for (int index : tensor_list(importer, node)) {
    std::vector<int64_t> shape = importer.tensor(index).shape;
    shape.insert(shape.begin() + dim, 1);
    const DType dtype = importer.tensor(index).dtype;
    inputs.push_back(importer.emit_step(node, "reshape", {index}, shape, dtype));
  }
  importer.emit(node, "cat", inputs,
                {
                    {"dim", dim}
  });
}

void import_expand(Importer& importer, const Node& node) { importer.emit(node, "expand", {importer.operand(node, "self")}); }

void import_pad(Importer& importer, const Node& node) {
  const Argument* mode = node.find_argument("mode");
  const std::string* word = mode == nullptr ? nullptr : mode->find<std::string>();
  if (word != nullptr && *word != "constant") return importer.refuse(node, fmt::format("with mode \"{}\"", *word));
  const std::vector<int64_t> given = node.ints_or("pad", {});  // last dimension first
  const size_t rank = importer.input_shape(node, "self").size();
  std::vector<int64_t> pads(2 * rank, 0);
  for (size_t i = 0; i + 1 < given.size() && i / 2 < rank; i += 2) {
    pads[2 * (rank - 1 - i / 2)] = given[i];
    pads[2 * (rank - 1 - i / 2) + 1] = given[i + 1];
  }
  importer.emit(node, "pad",
                {
                    importer.operand(node, "self")
  },
                {{"pads", pads}, {"value", node.float_or("value", 0)}});
}

// Input steps per output pixel along one dimension.
double upsample_scale(int64_t in, int64_t out, std::optional<double> factor, bool align_corners) {
  if (align_corners) return out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0.0;
  if (factor && *factor > 0) return 1 / *factor;
  return static_cast<double>(in) / static_cast<double>(out);
}

void emit_upsample(Importer& importer, const Node& node, const char* mode) {
  const int x = self_of(importer, node);
  const std::vector<int64_t> in = importer.tensor(x).shape;
  const std::vector<int64_t> out = static_shape(*node.outputs().front());
  const bool align_corners = node.bool_or("align_corners", false);
  const Argument* factors = node.find_argument("scale_factors");
  const std::vector<double>* list = factors == nullptr ? nullptr : factors->find<std::vector<double>>();
  std::vector<double> scales;
  for (size_t d = 0; d < 2; ++d) {
    std::optional<double> factor;
    const char* name = d == 0 ? "scales_h" : "scales_w";
    const Argument* own = node.find_argument(name);
    if (list != nullptr && list->size() == 2) factor = (*list)[d];
    if (own != nullptr && !own->is_none()) factor = node.float_or(name, 1);
    scales.push_back(upsample_scale(in[2 + d], out[2 + d], factor, align_corners));
  }
  importer.emit(node, "upsample",
                {
                    x
  },
                {{"mode", std::string(mode)}, {"align_corners", align_corners}, {"scales", scales}});
}
void import_upsample_nearest(Importer& importer, const Node& node) { emit_upsample(importer, node, "nearest"); }
void import_upsample_bilinear(Importer& importer, const Node& node) { emit_upsample(importer, node, "bilinear"); }

// ---- constants

void make_filled(Importer& importer, const Node& node, double fill) {
  Value* value = node.outputs().front();
  Tensor data = Tensor::zeros(DType::kFloat32, static_shape(*value));
  if (value->meta->dtype != DType::kFloat32 && fill != 0) return importer.refuse(node, fmt::format("of dtype {}", name_of(value->meta->dtype)));
  if (value->meta->dtype != DType::kFloat32) data = Tensor::zeros(value->meta->dtype, data.shape());
  if (fill != 0) std::fill_n(data.data<float>(), data.numel(), static_cast<float>(fill));
  importer.alias(value, importer.add_constant(value->name(), data));
}
void import_zeros(Importer& importer, const Node& node) { make_filled(importer, node, 0); }
void import_ones(Importer& importer, const Node& node) { make_filled(importer, node, 1); }
void import_full(Importer& importer, const Node& node) { make_filled(importer, node, node.float_or("fill_value", 0)); }

constexpr ImportRow kRows[] = {
    {"aten.view",                    import_reshape          },
    {"aten._unsafe_view",            import_reshape          },
    {"aten.view_copy",               import_reshape          },
    {"aten.reshape",                 import_reshape          },
    {"aten.flatten",                 import_reshape          },
    {"aten.unflatten",               import_reshape          },
    {"aten.unsqueeze",               import_reshape          },
    {"aten.squeeze",                 import_reshape          },
    {"aten.alias",                   import_alias            },
    {"aten.detach",                  import_alias            },
    {"aten.clone",                   import_alias            },
    {"aten.contiguous",              import_alias            },
    {"aten.lift_fresh_copy",         import_alias            },
    {"aten.dropout",                 import_dropout          },
    {"aten.feature_dropout",         import_dropout          },
    {"aten._assert_tensor_metadata", import_nothing          },
    {"aten.to",                      import_cast             },
    {"aten._to_copy",                import_cast             },
    {"aten.permute",                 import_permute          },
    {"aten.transpose",               import_transpose        },
    {"aten.t",                       import_transpose        },
    {"aten.pixel_shuffle",           import_pixel_shuffle    },
    {"aten.slice",                   import_slice            },
    {"aten.narrow",                  import_narrow           },
    {"aten.select",                  import_select           },
    {"aten.split",                   import_split            },
    {"aten.split_with_sizes",        import_split            },
    {"aten.chunk",                   import_split            },
    {"aten.unbind",                  import_unbind           },
    {"aten.embedding",               import_embedding        },
    {"aten.cat",                     import_cat              },
    {"aten.stack",                   import_stack            },
    {"aten.expand",                  import_expand           },
    {"aten.expand_as",               import_expand           },
    {"aten.pad",                     import_pad              },
    {"aten.constant_pad_nd",         import_pad              },
    {"aten.upsample_nearest2d",      import_upsample_nearest },
    {"aten.upsample_bilinear2d",     import_upsample_bilinear},
    {"aten.zeros",                   import_zeros            },
    {"aten.new_zeros",               import_zeros            },
    {"aten.zeros_like",              import_zeros            },
    {"aten.ones",                    import_ones             },
    {"aten.ones_like",               import_ones             },
    {"aten.full",                    import_full             },
    {"aten.full_like",               import_full             },
};

}  // namespace

std::span<const ImportRow> shape_import_rows() { return kRows; }

}  // namespace octet
