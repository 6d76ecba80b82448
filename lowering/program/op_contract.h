// Describes each kind of op in a Program: operands, results, attributes and meaning. The rows are
// in ops.def; verify(), the reference backend, the fuse passes and `octet inspect --ops` use them.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace octet {

struct ProgramOp;

enum class AttributeType { kFlag, kInteger, kReal, kText, kIntegers, kReals };

template <typename T>
constexpr AttributeType attribute_type() {
  if constexpr (std::is_same_v<T, bool>) return AttributeType::kFlag;
  if constexpr (std::is_same_v<T, int64_t>) return AttributeType::kInteger;
  if constexpr (std::is_same_v<T, double>) return AttributeType::kReal;
  if constexpr (std::is_same_v<T, std::string>) return AttributeType::kText;
  if constexpr (std::is_same_v<T, std::vector<int64_t>>) return AttributeType::kIntegers;
  return AttributeType::kReals;
}

// An attribute of a kind of op: the values that it may have, and its default. An attribute that is
// missing, not required and without a default reads as false, 0 or empty.
struct AttributeSpec {
  std::string_view name;
  AttributeType type = AttributeType::kFlag;
  bool is_required = false;
  double number = 0;                // the default of a flag, an integer or a real
  std::string_view text = {};       // the default of a text; for other types a note
  std::string_view words = {};      // allowed values of a text, separated by spaces
  bool has_real_functions = false;  // may also name a row of real_functions.h
  int64_t least = INT64_MIN;        // least integer, also of a list

  constexpr AttributeSpec required() const {
    return changed([](auto& s) { s.is_required = true; });
  }
  constexpr AttributeSpec by_default(double value, std::string_view note = "") const {
    return changed([&](auto& s) { s.number = value, s.text = note; });
  }
  constexpr AttributeSpec by_default(std::string_view value) const {
    return changed([&](auto& s) { s.text = value; });
  }
  constexpr AttributeSpec one_of(std::string_view values) const {
    return changed([&](auto& s) { s.words = values; });
  }
  constexpr AttributeSpec or_real_function() const {
    return changed([](auto& s) { s.has_real_functions = true; });
  }
  constexpr AttributeSpec at_least(int64_t value) const {
    return changed([&](auto& s) { s.least = value; });
  }

 private:
  template <typename Change>
  constexpr AttributeSpec changed(const Change& change) const {
    AttributeSpec spec = *this;
    change(spec);
    return spec;
  }
};

// The name of an attribute with the type of its value: `op.get(attr::kStride)` is a
// std::vector<int64_t>, and `op.attributes[attr::kStride] = ...` sets it.
template <typename T>
struct AttributeKey : AttributeSpec {
  constexpr explicit AttributeKey(std::string_view name)
      : AttributeSpec{name, attribute_type<T>()} {}
  operator std::string() const { return std::string(name); }
};

namespace attr {
using Flag = AttributeKey<bool>;
using Integer = AttributeKey<int64_t>;
using Real = AttributeKey<double>;
using Text = AttributeKey<std::string>;
using Integers = AttributeKey<std::vector<int64_t>>;
using Reals = AttributeKey<std::vector<double>>;

inline constexpr Flag kAccumulate{"accumulate"}, kAlignCorners{"align_corners"},
    kCeilMode{"ceil_mode"}, kCountIncludePad{"count_include_pad"}, kDescending{"descending"},
    kFromEnd{"from_end"}, kIncludeLastOffset{"include_last_offset"}, kIncludeSelf{"include_self"},
    kKeepdim{"keepdim"}, kLargest{"largest"}, kMasked{"masked"}, kReverse{"reverse"},
    kSorted{"sorted"}, kStable{"stable"};
inline constexpr Integer kCarried{"carried"}, kCounts{"counts"}, kDim{"dim"},
    kDivisorOverride{"divisor_override"}, kGroups{"groups"}, kK{"k"},
    kNormalizedDims{"normalized_dims"}, kPaddingIdx{"padding_idx"}, kQuantMax{"quant_max"},
    kQuantMin{"quant_min"}, kRows{"rows"}, kSizeValue{"value"}, kStart{"start"}, kStep{"step"},
    kZeroPoint{"zero_point"};
inline constexpr Real kAlpha{"alpha"}, kEps{"eps"}, kMax{"max"}, kMin{"min"}, kPostMax{"post_max"},
    kPostMin{"post_min"}, kScale{"scale"}, kSoftcap{"softcap"}, kThreshold{"threshold"},
    kValue{"value"};
inline constexpr Text kCell{"cell"}, kCustomOp{"custom_op"}, kFn{"fn"}, kGraph{"graph"},
    kMapping{"mapping"}, kMode{"mode"}, kOp{"op"}, kPaddingMode{"padding_mode"}, kReduce{"reduce"};
inline constexpr Integers kBlocks{"blocks"}, kBodies{"bodies"}, kDilation{"dilation"},
    kDims{"dims"}, kKernelSize{"kernel_size"}, kOutputPadding{"output_padding"},
    kOutputSize{"output_size"}, kPadding{"padding"}, kPaddingEnd{"padding_end"}, kPads{"pads"},
    kStride{"stride"};
inline constexpr Reals kScales{"scales"};
}  // namespace attr

// What an op does to quantized integers.
enum class Nature {
  kCompute,  // reads integers as reals, computes, may write integers with other qparams
  // copies elements of the first input: q(f(x)) = f(q(x)) and f(dq(x)) = dq(f(x))
  kMovement,
  kConversion,  // quantize, dequantize, requantize
  kFloat,       // neither reads nor writes quantized integers
};

struct OpContract {
  // An input or a result.
  struct Operand {
    std::string_view name;
    bool is_optional = false;  // absent inputs are -1
    bool is_repeated = false;  // any number; last in its list
    // may be an integer tensor with qparams; either all such operands of an op are integers, or
    // none
    bool may_be_integer = false;
  };

  std::string_view kind;
  Nature nature = Nature::kFloat;
  bool has_macs = false;       // counts multiply-accumulates
  std::string_view signature;  // "x*, w*, bias? -> y", see ops.def
  std::string_view meaning;
  std::vector<Operand> inputs, results;
  std::vector<AttributeSpec> attributes;

  const AttributeSpec* find_attribute(std::string_view name) const;
  // Whether the op has post_min and post_max, which clamp the real values before the output is
  // quantized.
  bool has_post_ops() const { return find_attribute(attr::kPostMin.name) != nullptr; }
  // The number of leading inputs that may be integers, for an op with `count` inputs.
  size_t integer_input_count(size_t count) const;
};

// In the order of ops.def.
std::span<const OpContract> op_contracts();
// Null for a kind that is not in ops.def.
const OpContract* find_contract(std::string_view kind);

// The first attribute that the kind lacks or has with another type; empty if there is none. Unknown
// kinds and custom ops, whose attributes are arguments, may have any attribute.
std::string find_attribute_fault(const ProgramOp& op);
// The first violation of the contract: a wrong number of inputs or outputs, a missing attribute, an
// unknown word or a number out of range; empty if there is none. Ignores shapes and dtypes.
std::string find_contract_fault(const ProgramOp& op);

struct BackendKinds {
  std::string backend;
  std::vector<std::string_view> kinds;  // those of which it accepts some ops
};
// A page in Markdown: a table with a column for each backend, and a section for each kind.
std::string contracts_page(std::span<const BackendKinds> backends);

// A kind in ops.def, written as a string literal. A misspelled kind does not compile.
struct OpKind {
  std::string_view name;
  consteval OpKind(const char* text) : name(text) {
    constexpr std::array kNames = {
#define OP(kind, ...) std::string_view(#kind),
#include "lowering/program/ops.def"
#undef OP
    };
    for (std::string_view known : kNames)
      if (known == name) return;
    throw "no such kind in lowering/program/ops.def";
  }
  friend constexpr bool operator==(OpKind a, std::string_view b) { return a.name == b; }
};

}  // namespace octet
