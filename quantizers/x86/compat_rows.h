// compat: tables of what torchao's X86 quantizer annotates, in its order. Rows match by the origin
// of nodes (common/source_partitions.h).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace octet {

// kUnfolded: in training, where it is folded after annotation
enum class BatchNorm { kFolded, kUnfolded };
// the other operand of an addition after the matrix op
enum class Addend { kNone, kQuantized, kFloat };
enum class Unary { kNone, kLast };                 // the last op of the chain
enum class ManyCalls { kRefused, kEachByItself };  // of a module that is called several times

// A convolution or linear op, then optional batch norm, add and unary op.
struct X86FusionRow {
  std::string name;
  std::vector<std::vector<std::string>> sources;  // the origin of each op
  std::vector<std::string> matrix_ops;  // the last op of the first partition must be one of these
  BatchNorm batch_norm = BatchNorm::kFolded;
  Addend addend = Addend::kNone;
  Unary unary = Unary::kNone;
  ManyCalls many_calls = ManyCalls::kRefused;
};
std::span<const X86FusionRow> x86_fusion_rows();

// Ops that are quantized when their input is. Input and output are integers of one scale.
std::span<const std::string> x86_propagation_ops();
// Ops that the global configuration covers, and ops that can be configured at all.
std::span<const std::string> x86_default_ops();
std::span<const std::string> x86_quantizable_ops();

// Finds the op of a function or module class: "torch.nn.functional.linear", "torch.nn.Linear",
// "aten.linear" and "linear" are all "aten.linear.default". nullopt when torchao cannot configure
// it.
std::optional<std::string> find_x86_op(const std::string& name);

}  // namespace octet
