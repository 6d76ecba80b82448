// Elementwise ops and quantizations that a matrix product does as its last act, so that their
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

// The ops that follow `op`, each the only reader of the one before, as far as a product can do
// them; a kQuantize comes last. Empty unless op's output is f32.
std::vector<Follower> find_followers(const SegmentBuilder& builder, const ProgramOp& op);

// Appends the followers to the attributes' post-ops, with the arguments that they need. `shape` and
// `order` (strides): those of the product as oneDNN sees it. Returns what is written then: float,
// or type and scale of the last one.
QuantParams append_followers(SegmentBuilder& builder, std::span<const Follower> followers,
                             const Dims& shape, const Dims& order, dnnl::primitive_attr& attributes,
                             std::vector<Argument>& arguments);

// plan(followers) for as many of the followers as there is a fast kernel for, and how many those
// are. Throws what plan throws without any.
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

// Marks them as done and returns the tensor that the last one makes; op's own when there are none.
int absorb_followers(SegmentBuilder& builder, const ProgramOp& op,
                     std::span<const Follower> followers);

}  // namespace octet::onednn
