// Compares each ATen op that has an import row with ATen.
#include <string>

#include <catch2/catch.hpp>

#include "core/graph/graph.h"
#include "tests/lowering/call_rows.h"
#include "tests/lowering/lowering_helpers.h"

namespace octet::test_decompositions {
namespace {

constexpr const char* kX = "%x: f32[2,3,4,6]";
constexpr const char* kY = "%y: f32[2,3,4,6]";
constexpr const char* kTwo = "%x: f32[2,3,4,6], %z: f32[4,1]";
constexpr const char* kInts = "%x: i64[2,5], %z: i64[2,5]";
constexpr const char* kFlags = "%x: b8[2,5], %z: b8[5]";

}  // namespace

TEST_CASE("functions of one element", "[lowering][decompositions]") {
  for (const char* name :
       {"erf",        "erfc",        "log1p", "expm1",  "exp2", "sin",   "cos",
        "tan",        "asin",        "acos",  "atan",   "sinh", "cosh",  "asinh",
        "atanh",      "ceil",        "floor", "trunc",  "sign", "mish",  "selu",
        "softplus",   "log_sigmoid", "celu",  "square", "frac", "round", "hardshrink",
        "softshrink", "nan_to_num",  "neg",   "abs"}) {
    const std::string call = std::string("aten.") + name + ".default(%x)";
    check_rows({{kX, kY, call.c_str()}});
  }
  check_rows({
      {kX, kY, "aten.reciprocal.default(%x)"},
      {kX, kY, "aten.softplus.default(%x, 3, 0.5)"},
      {kX, kY, "aten.celu.default(%x, 0.3)"},
      {kX, kY, "aten.elu.default(%x, 0.7, 1.5)"},
      {kX, kY, "aten.threshold.default(%x, 0.2, -3)"},
      {kX, kY, "aten.logit.default(%x, 0.1)"},
      {kX, kY, "aten.round.decimals(%x, decimals=2)"},
      {"%x: i64[2,5]", "%y: f32[2,5]", "aten.sin.default(%x)"},
      {"%x: i64[2,5]", "%y: i64[2,5]", "aten.neg.default(%x)"},
      {"%x: i64[2,5]", "%y: i64[2,5]", "aten.bitwise_not.default(%x)"},
      {"%x: b8[2,5]", "%y: b8[2,5]", "aten.bitwise_not.default(%x)"},
      {"%x: b8[2,5]", "%y: b8[2,5]", "aten.logical_not.default(%x)"},
      {kX, "%y: b8[2,3,4,6]", "aten.logical_not.default(%x)"},
      {kX, "%y: b8[2,3,4,6]", "aten.isnan.default(%x)"},
      {kX, "%y: b8[2,3,4,6]", "aten.isinf.default(%x)"},
  });
}

TEST_CASE("functions of two elements", "[lowering][decompositions]") {
  for (const char* name : {"eq", "ne", "lt", "le", "gt", "ge"}) {
    const std::string tensors = std::string("aten.") + name + ".Tensor(%x, %z)",
                      number = std::string("aten.") + name + ".Scalar(%x, 0)";
    check_rows({
        {kTwo, "%y: b8[2,3,4,6]", tensors.c_str()},
        {kInts, "%y: b8[2,5]", tensors.c_str()},
        {kX, "%y: b8[2,3,4,6]", number.c_str()},
        {kInts, "%y: b8[2,5]", number.c_str()},
    });
  }
  for (const char* name : {"and", "or", "xor"}) {
    const std::string logical = std::string("aten.logical_") + name + ".default(%x, %z)",
                      bitwise = std::string("aten.bitwise_") + name + ".Tensor(%x, %z)",
                      python = std::string("aten.__") + name + "__.Tensor(%x, %z)";
    check_rows({
        {kFlags, "%y: b8[2,5]", logical.c_str()},
        {kTwo, "%y: b8[2,3,4,6]", logical.c_str()},
        {kFlags, "%y: b8[2,5]", bitwise.c_str()},
        {kInts, "%y: i64[2,5]", bitwise.c_str()},
        {kFlags, "%y: b8[2,5]", python.c_str()},
    });
  }
  check_rows({
      {kInts, "%y: i64[2,5]", "aten.__lshift__.Tensor(%x, %z)"},
      {kInts, "%y: i64[2,5]", "aten.__rshift__.Scalar(%x, 1)"},
      {kInts, "%y: i64[2,5]", "aten.mul.Tensor(%x, 4611686018427387905)"},
      {kInts, "%y: i64[2,5]", "aten.add.Tensor(%x, %z, alpha=3)"},
      {kInts, "%y: f32[2,5]", "aten.div.Tensor(%x, 4)"},
      {kInts, "%y: i64[2,5]", "aten.floor_divide.default(%x, 3)"},
      {kInts, "%y: i64[2,5]", "aten.remainder.Scalar(%x, -3)"},
      {kTwo, kY, "aten.remainder.Tensor(%x, %z)"},
      {kTwo, kY, "aten.fmod.Tensor(%x, %z)"},
      {kTwo, kY, "aten.atan2.default(%x, %z)"},
      {kTwo, kY, "aten.div.Tensor_mode(%x, %z, rounding_mode=\"floor\")"},
      {kTwo, kY, "aten.div.Tensor_mode(%x, %z, rounding_mode=\"trunc\")"},
      {"%x: i64[2,5], %z: f32[2,5]", "%y: f32[2,5]", "aten.pow.Tensor_Tensor(%x, %z)"},
      {kX, kY, "aten.pow.Scalar(2, %x)"},
      {kX, kY, "aten.pow.Tensor_Scalar(%x, 2)"},
      {kInts, "%y: i64[2,5]", "aten.pow.Tensor_Scalar(%x, 37)"},
      {kTwo, kY, "aten.clamp.Tensor(%x, %z, None)"},
      {kTwo, kY, "aten.clamp_max.Tensor(%x, %z)"},
      {kTwo, kY, "aten.addcmul.default(%x, %z, %z, value=0.5)"},
      {kTwo, kY, "aten.addcdiv.default(%x, %x, %z, value=0.5)"},
      {kTwo, kY, "aten.lerp.Scalar(%x, %z, 0.3)"},
      {"%x: f32[2,3,4,6], %z: f32[2,3,4,6]", kY, "aten.max.other(%x, %z)"},
      {"%c: b8[5], %x: i64[2,5], %z: i64[2,5]", "%y: i64[2,5]", "aten.where.self(%c, %x, %z)"},
  });
}

TEST_CASE("reductions and running sums of any dtype", "[lowering][decompositions]") {
  check_rows({
      {kX, "%y: b8[]", "aten.any.default(%x)"},
      {"%x: b8[2,5]", "%y: b8[2,1]", "aten.all.dim(%x, 1, True)"},
      {"%x: b8[2,5]", "%y: b8[5]", "aten.any.dim(%x, 0)"},
      {"%x: b8[2,5]", "%y: i64[2]", "aten.sum.dim_IntList(%x, [1])"},
      {"%x: i64[2,5]", "%y: i64[]", "aten.sum.default(%x)"},
      {"%x: i64[2,5]", "%y: i64[2]", "aten.prod.dim_int(%x, 1)"},
      {"%x: i64[2,5]", "%y: i64[2]", "aten.amax.default(%x, [1])"},
      {kX, "%y: i64[2,4,6]", "aten.argmax.default(%x, 1)"},
      {kX, "%y: i64[2,3,4,1]", "aten.argmin.default(%x, -1, True)"},
      {kX, "%y: i64[]", "aten.argmax.default(%x)"},
      {kX, "%y: f32[2,3,6], %i: i64[2,3,6]", "aten.max.dim(%x, 2)", "%y, %i"},
      {kX, "%y: f32[2,3,6], %i: i64[2,3,6]", "aten.min.dim(%x, 2)", "%i"},
      {kX, "%y: i64[2,3,4]", "aten.count_nonzero.dim_IntList(%x, [-1])"},
      {kX, kY, "aten.cumsum.default(%x, 2)"},
      {"%x: i64[2,5]", "%y: i64[2,5]", "aten.cumsum.default(%x, 1)"},
      {"%x: b8[2,5]", "%y: i64[2,5]", "aten.cumsum.default(%x, -1)"},
      {kX, kY, "aten.cumprod.default(%x, 3)"},
      {kX, kY, "aten.logcumsumexp.default(%x, 1)"},
      {"%x: i64[2,5]", "%y: i64[2,4]", "aten.diff.default(%x)"},
      {"%x: i64[2,5]", "%y: i64[2,0]", "aten.diff.default(%x, 6)"},
      {"%x: i64[2,5]", "%y: i64[4,5]", "aten.diff.default(%x, 2, 0, %x, %x)"},
      {"%x: b8[2,5]", "%y: b8[2,4]", "aten.diff.default(%x)"},
      {kX, "%y: f32[2,3,4,6], %i: i64[2,3,4,6]", "aten.cummax.default(%x, 2)", "%y, %i"},
      {kX, "%y: f32[2,4,6]", "aten.logsumexp.default(%x, [1])"},
      {kX, "%y: f32[2,1,4,1]", "aten.var.correction(%x, [1, 3], correction=1, keepdim=True)"},
      {kX, "%y: f32[2,3]", "aten.std.dim(%x, [2, 3], False)"},
      {kX, "%y: f32[2,3,4], %m: f32[2,3,4]", "aten.var_mean.correction(%x, [-1], correction=0)",
       "%y, %m"},
      {kX, "%y: f32[2,3,4]", "aten.linalg_vector_norm.default(%x, 2, [-1])"},
      {kX, "%y: f32[2,3,4]", "aten.linalg_vector_norm.default(%x, 3, [-1])"},
      {kX, "%y: f32[2,3,4,1]", "aten.linalg_vector_norm.default(%x, 1, [3], True)"},
  });
}

// clang-format off
TEST_CASE("elements picked and put by indices", "[lowering][decompositions]") {
  const char* const table = "%x: f32[2,3,4], %i: i64[2,3]";
  check_rows({
      {"%x: f32[2,3,4], %i: i64[2,2,4]", "%y: f32[2,2,4]", "aten.gather.default(%x, 1, %i)"},
      {"%x: f32[2,3,4], %i: i64[2,1,4]", "%y: f32[2,1,4]",
       "aten.take_along_dim.default(%x, %i, 1)"},
      {table, "%y: f32[2,3,3,4]", "aten.index.Tensor(%x, [%i])"},
      {table, "%y: f32[2,2,3,4]", "aten.index.Tensor(%x, [None, %i])"},
      {table, "%y: f32[2,3,4]", "aten.index.Tensor(%x, [%i, %i])"},
      {table, "%y: f32[2,3,3]", "aten.index.Tensor(%x, [%i, None, %i])"},
      {"%x: f32[2,3,4], %i: i64[5]", "%y: f32[2,5,4]", "aten.index_select.default(%x, 1, %i)"},
      {"%x: i64[2,3,4], %i: i64[5]", "%y: i64[2,3,5]", "aten.index_select.default(%x, -1, %i)"},
      {"%x: f32[2,3,4], %i: i64[3], %v: f32[3,3,4]", "%y: f32[2,3,4]",
       "aten.index_put.default(%x, [%i], %v, True)"},
      {"%x: f32[2,3,4], %v: f32[], %m: b8[2,3]", "%y: f32[2,3,4]",
       "aten.index_put.default(%x, [%m], %v)"},
      {"%x: f32[2,3,4], %i: i64[1], %v: f32[2,1,4]", "%y: f32[2,3,4]",
       "aten.index_copy.default(%x, 1, %i, %v)"},
      {"%x: f32[2,3,4], %i: i64[2], %v: f32[2,2,4]", "%y: f32[2,3,4]",
       "aten.index_add.default(%x, 1, %i, %v, alpha=0.5)"},
      {"%x: f32[2,3,4], %i: i64[2]", "%y: f32[2,3,4]",
       "aten.index_fill.int_Scalar(%x, 1, %i, 3.5)"},
      {"%x: f32[2,3,4], %i: i64[1,3,4], %v: f32[1,3,4]", "%y: f32[2,3,4]",
       "aten.scatter.src(%x, 0, %i, %v)"},
      {"%x: f32[2,3,4], %i: i64[2,1,4]", "%y: f32[2,3,4]", "aten.scatter.value(%x, 1, %i, 2.5)"},
      {"%x: f32[2,3,4], %i: i64[2,3,4], %v: f32[2,3,4]", "%y: f32[2,3,4]",
       "aten.scatter_add.default(%x, 1, %i, %v)"},
      {"%x: f32[2,3,4], %i: i64[2,3,4], %v: f32[2,3,4]", "%y: f32[2,3,4]",
       "aten.scatter_reduce.two(%x, 1, %i, %v, \"amax\")"},
      {"%x: f32[2,3,4], %i: i64[2,3,4], %v: f32[2,3,4]", "%y: f32[2,3,4]",
       "aten.scatter_reduce.two(%x, 1, %i, %v, \"mean\", include_self=False)"},
      {kX, "%y: f32[2,3,4,2], %i: i64[2,3,4,2]", "aten.topk.default(%x, 2)", "%y, %i"},
      {kX, "%y: f32[2,2,4,6], %i: i64[2,2,4,6]", "aten.topk.default(%x, 2, 1, False)", "%y, %i"},
      {kX, "%y: f32[2,3,4,6], %i: i64[2,3,4,6]", "aten.sort.default(%x, 2, True)", "%y, %i"},
      {kX, "%y: i64[2,3,4,6]", "aten.argsort.default(%x, 1)"},
      {"%x: i64[2,5]", "%y: i64[2,5,4]", "aten.one_hot.default(%x, 4)"},
      {"%x: f32[2,5], %b = buffer \"b\": f32[1]", "%y: i64[2,5]", "aten.bucketize.Tensor(%x, %b)"},
      {"%w = param \"w\": f32[5,4], %i: i64[6], %o = buffer \"o\": i64[2]",
       "%y: f32[2,4], %a: i64[6], %b: i64[2], %c: i64[2]", "aten._embedding_bag.default(%w, %i, %o, False, 1)"},
  });
}

TEST_CASE("the row of a table that no bag counts may be given from its end",
          "[lowering][decompositions]") {
  const std::string w = "%w = param \"w\": f32[2,4], %i: i64[6], %o = buffer \"o\": i64[2]",
                    results = "%y: f32[2,4], %a: i64[6], %b: i64[2], %c: i64[2]";
  for (const std::string mode : {"0", "1", "2"})
    for (const std::string padding : {"-1", "-2", "1", "None"}) {
      INFO(mode << " " << padding);
      const std::string call = "aten.embedding_bag.padding_idx(%w, %i, %o, False, " + mode +
                               ", False, None, False, " + padding + ")";
      CHECK(difference_of({w.c_str(), results.c_str(), call.c_str()}) < 1e-6);
    }
}

TEST_CASE("elements moved", "[lowering][decompositions]") {
  check_rows({
      {kX, "%y: f32[4,3,2,6]", "aten.swapaxes.default(%x, 0, 2)"},
      {kX, "%y: f32[3,4,2,6]", "aten.movedim.int(%x, 0, 2)"},
      {kX, "%y: f32[6,4,2,3]", "aten.movedim.intlist(%x, [-1, 2], [0, 1])"},
      {kX, "%y: f32[2,3,6,4]", "aten.mT.default(%x)"},
      {"%x: f32[2,3]", "%y: f32[4,2,9]", "aten.repeat.default(%x, [4, 1, 3])"},
      {"%x: f32[2,3,4]", "%y: f32[2,6,4]", "aten.tile.default(%x, [2, 1])"},
      {"%x: f32[2,3]", "%y: f32[2,6]", "aten.repeat_interleave.self_int(%x, 2, 1)"},
      {"%x: f32[2,3]", "%y: f32[12]", "aten.repeat_interleave.self_int(%x, 2)"},
      {kX, kY, "aten.roll.default(%x, [1, -2], [2, 3])"},
      {kX, kY, "aten.roll.default(%x, [5])"},
      {kX, kY, "aten.flip.default(%x, [0, -1])"},
      {"%x: i64[2,5]", "%y: i64[2,5]", "aten.flip.default(%x, [1])"},
      {"%x: f32[3], %z: f32[4]", "[%y: f32[3,4], %w: f32[3,4]]",
       "aten.meshgrid.indexing([%x, %z], indexing=\"ij\")", "%y, %w"},
      {"%x: f32[3], %z: f32[4]", "[%y: f32[4,3], %w: f32[4,3]]",
       "aten.meshgrid.indexing([%x, %z], indexing=\"xy\")", "%y, %w"},
      {"%x: f32[3], %z: f32[4]", "%y: f32[7]", "aten.hstack.default([%x, %z])"},
      {"%x: f32[3], %z: f32[3]", "%y: f32[2,3]", "aten.vstack.default([%x, %z])"},
      {"%x: f32[3], %z: f32[3]", "%y: f32[3,2]", "aten.column_stack.default([%x, %z])"},
      {"%x: f32[3], %z: f32[3]", "%y: f32[1,3,2]", "aten.dstack.default([%x, %z])"},
      {kX, "%y: f32[2,3,4,2,3]", "aten.unfold.default(%x, 3, 3, 2)"},
      {kX, "%y: f32[2,2,4,6,2]", "aten.unfold.default(%x, 1, 2, 1)"},
      {kX, "%y: f32[2,3,6,9]", "aten.reflection_pad2d.default(%x, [2, 1, 1, 1])"},
      {kX, "%y: f32[2,3,6,9]", "aten.replication_pad2d.default(%x, [2, 1, 1, 1])"},
      {kX, "%y: f32[2,3,6,9]", "aten.pad.default(%x, [2, 1, 1, 1], \"circular\")"},
      {kX, "%y: f32[2,3,5,4]", "aten.pad.default(%x, [-1, -1, 0, 1], \"constant\", 2.0)"},
      {kX, "%y: f32[2,12,2,3]", "aten.pixel_unshuffle.default(%x, 2)"},
      {"%x: f32[2,6,4,5]", "%y: f32[2,6,4,5]", "aten.channel_shuffle.default(%x, 3)"},
      {kX, "%y: f32[2,12,15]", "aten.im2col.default(%x, [2, 2], [1, 1], [0, 0], [1, 1])"},
      {"%x: f32[2,12,15]", "%y: f32[2,3,4,6]",
       "aten.col2im.default(%x, [4, 6], [2, 2], [1, 1], [0, 0], [1, 1])"},
      {kX, kY, "aten.tril.default(%x, 1)"},
      {kX, kY, "aten.triu.default(%x)"},
      {kX, "%y: f32[2,3,4]", "aten.diagonal.default(%x, 1, 2, 3)"},
      {"%x: f32[2,3,4], %z: f32[2,2,4]", "%y: f32[2,3,4]",
       "aten.slice_scatter.default(%x, %z, 1, 1, 3)"},
      {"%x: f32[2,3,4], %z: f32[2,3,2]", "%y: f32[2,3,4]",
       "aten.slice_scatter.default(%x, %z, 2, 0, 4, 2)"},
      {"%x: f32[2,3,4], %z: f32[2,4]", "%y: f32[2,3,4]",
       "aten.select_scatter.default(%x, %z, 1, -1)"},
      {kX, "%y: f32[2,3,8,12]", "aten.upsample_bicubic2d.vec(%x, [8, 12], False, None)"},
      {kX, "%y: f32[2,3,7,5]", "aten.upsample_bicubic2d.vec(%x, [7, 5], True, None)"},
      {kX, "%y: f32[2,3,7,5]", "aten._upsample_nearest_exact2d.vec(%x, [7, 5], None)"},
      {"%x: f32[1,2,3,4,5]", "%y: f32[1,2,6,8,7]",
       "aten.upsample_trilinear3d.vec(%x, [6, 8, 7], False, None)"},
      {"%x: f32[1,2,3,4,5]", "%y: f32[1,2,6,8,7]",
       "aten.upsample_nearest3d.vec(%x, [6, 8, 7], None)"},
      {"%t: f32[2,2,3]", "%y: f32[2,4,5,2]",
       "aten.affine_grid_generator.default(%t, [2, 3, 4, 5], False)"},
  });
}

// LibTorch's own kernel reads with masked gathers, which QEMU 7.2 gets wrong.
TEST_CASE("pixels at the places of a grid", "[lowering][decompositions][native]") {
  check_rows({
      {"%x: f32[2,3,4,6], %g: f32[2,5,5,2]", "%y: f32[2,3,5,5]",
       "aten.grid_sampler.default(%x, %g, 0, 0, False)"},
      {"%x: f32[2,3,4,6], %g: f32[2,5,5,2]", "%y: f32[2,3,5,5]",
       "aten.grid_sampler.default(%x, %g, 1, 1, True)"},
      {"%x: f32[2,3,4,6], %g: f32[2,5,5,2]", "%y: f32[2,3,5,5]",
       "aten.grid_sampler.default(%x, %g, 2, 2, False)"},
  });
}

TEST_CASE("norms, gates, products and cells", "[lowering][decompositions]") {
  check_rows({
      {"%x: f32[2,3,8], %w = param \"w\": f32[8]", "%y: f32[2,3,8]",
       "aten.rms_norm.default(%x, [8], %w, 1e-5)"},
      {"%x: f32[2,3,8]", "%y: f32[2,3,8]", "aten.rms_norm.default(%x, [3, 8])"},
      {"%x: f32[2,6,8]", "%y: f32[2,3,8]", "aten.glu.default(%x, 1)"},
      {kX, kY, "aten.log_softmax.int(%x, 1)"},
      {"%x: f32[2,3,8], %z: f32[2,3,8]", "%y: f32[2,3]",
       "aten.cosine_similarity.default(%x, %z, -1)"},
      {"%a: f32[2,3,8], %b: f32[2,5,8]", "%y: f32[2,3,5]", "aten.cdist.default(%a, %b)"},
      {"%s: f32[2,3,5], %a: f32[2,3,4], %b: f32[2,4,5]", "%y: f32[2,3,5]",
       "aten.baddbmm.default(%s, %a, %b, beta=0.5, alpha=2)"},
      {"%s: f32[5], %a: f32[3,4], %b: f32[4,5]", "%y: f32[3,5]",
       "aten.addmm.default(%s, %a, %b, beta=0.5, alpha=2)"},
      {"%a: f32[3,4], %b: f32[4]", "%y: f32[3]", "aten.mv.default(%a, %b)"},
      {"%a: f32[4], %b: f32[4]", "%y: f32[]", "aten.dot.default(%a, %b)"},
      {"%a: f32[3], %b: f32[4]", "%y: f32[3,4]", "aten.outer.default(%a, %b)"},
      {"%a: f32[2,3,4], %b: f32[2,5,4]", "%y: f32[2,3,5]",
       "aten.einsum.default(\"bid,bjd->bij\", [%a, %b])"},
      {"%a: f32[2,3,4], %b: f32[4,5]", "%y: f32[2,3,5]",
       "aten.einsum.default(\"...d,de\", [%a, %b])"},
      {"%a: f32[2,3,4,5], %b: f32[2,3,6,5], %c: f32[6]", "%y: f32[2,4,3]",
       "aten.einsum.default(\"bhid,bhjd,j->bih\", [%a, %b, %c])"},
      {"%a: f32[2,3,4]", "%y: f32[4,2]", "aten.einsum.default(\"abc->ca\", [%a])"},
      {"%a: f32[2,3,4], %b: f32[3,4,5]", "%y: f32[2,5]",
       "aten.tensordot.default(%a, %b, [1, 2], [0, 1])"},
      {"%x: f32[2,4], %h: f32[2,3], %w = param \"w\": f32[9,4], %r = param \"r\": f32[9,3], "
       "%b = param \"b\": f32[9], %c = param \"c\": f32[9]", "%y: f32[2,3]", "aten.gru_cell.default(%x, %h, %w, %r, %b, %c)"},
      {"%x: f32[2,4], %h: f32[2,3], %s: f32[2,3], %w = param \"w\": f32[12,4], "
       "%r = param \"r\": f32[12,3]", "%y: f32[2,3], %z: f32[2,3]", "aten.lstm_cell.default(%x, [%h, %s], %w, %r)", "%y, %z"},
      {"%x: f32[1,3,8], %w = param \"w\": f32[3]", "%y: f32[1,3,8]",
       "aten.batch_norm.default(%x, %w, None, None, None, True, 0.1, 1e-5, False)"},
  });
}
// clang-format on

TEST_CASE("tensors made of one value", "[lowering][decompositions]") {
  check_rows({
      {"%x: i64[2,5]", "%y: i64[2,3]", "aten.new_full.default(%x, [2, 3], 7)"},
      {"%x: f32[2,5]", "%y: b8[2,5]", "aten.ones_like.default(%x, dtype=b8)"},
      {"%x: f32[2,5]", "%y: f32[2,5]", "aten.fill.Scalar(%x, 2.5)"},
      {"%x: f32[2,5], %z: f32[1,5]", "%y: f32[2,5]", "aten.copy.default(%x, %z)"},
  });
}

TEST_CASE("writes in place reach what they are views of", "[lowering][decompositions]") {
  const auto difference = [](const std::string& lines) {
    return compare_with_interpreter(make_graph("graph(%x: f32[2,6,4]):\n" + lines)).greatest;
  };
  // half of a tensor
  CHECK(difference(R"(      %a: f32[2,6,4] = aten.relu.default(%x)
      %s: f32[2,3,4] = aten.slice.Tensor(%a, 1, 0, 3)
      %w: f32[2,3,4] = aten.mul_.Tensor(%s, 2.0)
      %y: f32[2,6,4] = aten.add.Tensor(%a, 1.0)
      return (%y))") < 1e-5);
  // one view written, another read
  CHECK(difference(R"(      %a: f32[2,6,4] = aten.relu.default(%x)
      %v: f32[2,24] = aten.view.default(%a, [2, 24])
      %t: f32[2,4,6] = aten.transpose.int(%a, 1, 2)
      %s: f32[2,6] = aten.select.int(%t, 1, 2)
      %w: f32[2,6] = aten.fill_.Scalar(%s, 3.0)
      return (%v, %t))") < 1e-5);
  // twice in a row
  CHECK(difference(R"(      %a: f32[2,6,4] = aten.relu.default(%x)
      %b: f32[2,6,4] = aten.add_.Tensor(%a, 1.0)
      %c: f32[2,6,4] = aten.sigmoid_.default(%b)
      return (%a, %b, %c))") < 1e-5);
  // a copy is not a view
  CHECK(difference(R"(      %a: f32[2,6,4] = aten.relu.default(%x)
      %t: f32[2,4,6] = aten.transpose.int(%a, 1, 2)
      %c: f32[2,4,6] = aten.clone.default(%t)
      %w: f32[2,4,6] = aten.mul_.Tensor(%c, 2.0)
      return (%a, %w))") < 1e-5);
  CHECK(error_of(make_graph(R"(graph(%x: f32[2,6,4]):
      %w: f32[2,6,4] = aten.mul_.Tensor(%x, 2.0)
      return (%w))"))
            .find("writes into %x, an input of the program") != std::string::npos);
}

TEST_CASE("a row as the weight of linear gives a number for each row",
          "[lowering][decompositions]") {
  const Graph graph = make_graph(R"(graph(%x: f32[3,8], %w: f32[8]):
  %y: f32[3] = aten.linear.default(%x, %w)
  return (%y))");
  CHECK(compare_with_interpreter(graph).greatest < 1e-5);
}

TEST_CASE("linear algebra", "[lowering][decompositions]") {
  struct Row {
    const char *results, *call, *returns = "%y";
  };
  for (const Row& row : {
           Row{"%y: f32[2,4,4]", "aten.linalg_inv.default(%w)"},
           Row{"%y: f32[2,4,4], %i: i32[2]", "aten.linalg_inv_ex.default(%w)", "%y, %i"},
           Row{"%y: f32[2,4,4]", "aten.linalg_cholesky.default(%w)"},
           Row{"%y: f32[2,4,4]", "aten.linalg_cholesky.default(%w, upper=True)"},
           Row{"%y: f32[2,4,3]", "aten.linalg_solve.default(%w, %b)"},
           Row{"%y: f32[2,3,4]", "aten.linalg_solve.default(%w, %c, left=False)"},
           Row{"%y: f32[2,4]", "aten.linalg_solve.default(%w, %v)"},
           Row{"%q: f32[2,4,3], %r: f32[2,3,3]", "aten.linalg_qr.default(%b)", "%q, %r"},
           Row{"%q: f32[2,4,4], %r: f32[2,4,3]", "aten.linalg_qr.default(%b, \"complete\")",
               "%q, %r"},
           Row{"%q: f32[2,3,3], %r: f32[2,3,4]", "aten.linalg_qr.default(%c)", "%q, %r"},
           Row{"%q: f32[0], %r: f32[2,4,4]", "aten.linalg_qr.default(%w, \"r\")", "%r"},
           Row{"%d: f32[2]",
               "aten.linalg_det.default(%w)\n      %y: f32[2] = aten.mul.Tensor(%d, 1e-4)"},
       }) {
    const std::string call =
        std::string(
            "aten.eye.default(4)\n      %w: f32[2,4,4] = aten.add.Tensor(%x, %e, "
            "alpha=9)\n      ") +
        row.results + " = " + row.call;
    check_rows({{"%x: f32[2,4,4], %b: f32[2,4,3], %c: f32[2,3,4], %v: f32[2,4]", "%e: f32[4,4]",
                 call.c_str(), row.returns}});
  }
}

TEST_CASE("histograms, slices of a greatest norm, and rrelu", "[lowering][decompositions]") {
  check_rows({
      {"%x: f32[5,8]", "%y: f32[7]", "aten.histc.default(%x, 7, -1, 1)"},
      {"%x: f32[5,80]", "%y: f32[10]", "aten.histc.default(%x, 10, 0.1, 0.7)"},
      {"%x: f32[3,4]", "%y: f32[3,4]", "aten.renorm.default(%x, 2, 0, 0.5)"},
      {kX, kY, "aten.rrelu.default(%x)"},
  });
}

}  // namespace octet::test_decompositions
