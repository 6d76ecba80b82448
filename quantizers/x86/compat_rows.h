// compat: what torchao's X86 quantizer takes, as tables, in its order. Matched by where the nodes
// came from (see source_partitions.h).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace octet {

// kUnfolded: of training, where it is folded after annotation
enum class BatchNorm { kFolded, kUnfolded };
// the other operand of an addition that follows the matrix op
enum class Addend { kNone, kQuantized, kFloat };
enum class Unary { kNone, kLast };                 // the last op of the chain
enum class ManyCalls { kRefused, kEachByItself };  // of a module that is called more than once

// A convolution or linear op, then batch norm, add and unary op, as far as they are there.
struct X86FusionRow {
  std::string name;
  std::vector<std::vector<std::string>> sources;  // what each op came from
  std::vector<std::string> matrix_ops;            // that the first partition must end in
  BatchNorm batch_norm = BatchNorm::kFolded;
  Addend addend = Addend::kNone;
  Unary unary = Unary::kNone;
  ManyCalls many_calls = ManyCalls::kRefused;
};
std::span<const X86FusionRow> x86_fusion_rows();

// Ops that are quantized when what they read is. They read and write integers of one scale.
std::span<const std::string> x86_propagation_ops();
// Ops that the global configuration covers, and those that can be configured at all.
std::span<const std::string> x86_default_ops();
std::span<const std::string> x86_quantizable_ops();

// The op of a function or module class: "torch.nn.functional.linear",
// "torch.nn.Linear", "aten.linear" and "linear" are all "aten.linear.default". Nothing when
// torchao cannot configure it.
std::optional<std::string> find_x86_op(const std::string& name);

}  // namespace octet
