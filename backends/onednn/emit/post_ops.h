// Fuses elementwise ops and quantizations into the matrix product that precedes them, so that their
// inputs are never written to memory:
//
//   linear -> gelu -> quantize        matmul -> mul(scalar) -> add(mask)
//       linear -> add(residual)        conv -> add(residual) -> quantize
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "backends/onednn/builder/segment_builder.h"

namespace octet::onednn {

struct Follower {
  enum class Kind { kFunction, kAdd, kMul, kQuantize };
  Kind kind = Kind::kFunction;
  const ProgramOp* op = nullptr;
  int other = -1;  // kAdd, kMul: the tensor that does not come from the product
};

// Finds the ops after `op` that a product can fuse. Each is the only reader of the one before; a
// kQuantize comes last. Empty unless op's output is f32.
std::vector<Follower> find_followers(const SegmentBuilder& builder, const ProgramOp& op);

// Appends the followers to the attributes' post-ops, with their arguments. `shape`, `order`
// (strides): of the product as oneDNN sees it. Returns what the product then writes: float, or type
// and scale of the last follower.
QuantParams append_followers(SegmentBuilder& builder, std::span<const Follower> followers,
                             const Dims& shape, const Dims& order, dnnl::primitive_attr& attributes,
                             std::vector<Argument>& arguments);

// Calls plan(followers) with as many followers as have a fast kernel, and returns the result and
// their number. Throws what plan throws without followers.
template <typename Plan>
auto plan_with_most_followers(const std::vector<Follower>& followers, const Plan& plan) {
  using Planned = decltype(plan(std::span<const Follower>()));
  for (size_t count = followers.size(); count > 0; --count) {
    try {
      return std::pair<Planned, size_t>(plan(std::span<const Follower>(followers.data(), count)),
                                        count);
    } catch (const dnnl::error&) {
    } catch (const Refusal&) {
    }
  }
  return std::pair<Planned, size_t>(plan(std::span<const Follower>()), 0);
}

// Returns the form in which a product with these followers writes its result: `written`, with
// bfloat16 in place of float32 if the product reads bfloat16 (`read`) and so do all readers of the
// result.
QuantParams result_form(const SegmentBuilder& builder, const ProgramOp& op,
                        std::span<const Follower> followers, const QuantParams& read,
                        const QuantParams& written);

// Marks the followers as done and returns the tensor that the last one makes, or op's output when
// there are none.
int absorb_followers(SegmentBuilder& builder, const ProgramOp& op,
                     std::span<const Follower> followers);

}  // namespace octet::onednn
