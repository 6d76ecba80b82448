// The words in the text form of graphs (text.h), one table each for printer and parser. Private to
// core/text.
#pragma once

#include <utility>

#include "core/graph/graph.h"

namespace octet::text_words {

constexpr std::array<std::pair<MemoryFormat, std::string_view>, 5> kMemoryFormats = {
    {{MemoryFormat::kUnknown, "unknown"},
     {MemoryFormat::kContiguous, "contiguous"},
     {MemoryFormat::kChannelsLast, "channels_last"},
     {MemoryFormat::kChannelsLast3d, "channels_last_3d"},
     {MemoryFormat::kPreserve, "preserve"}}};

constexpr std::array<std::pair<Layout, std::string_view>, 8> kLayouts = {
    {{Layout::kUnknown, "unknown"},
     {Layout::kSparseCoo, "sparse_coo"},
     {Layout::kSparseCsr, "sparse_csr"},
     {Layout::kSparseCsc, "sparse_csc"},
     {Layout::kSparseBsr, "sparse_bsr"},
     {Layout::kSparseBsc, "sparse_bsc"},
     {Layout::kMkldnn, "mkldnn"},
     {Layout::kStrided, "strided"}}};

constexpr std::array<std::pair<ValueKind, std::string_view>, 3> kSymbolKinds = {
    {{ValueKind::kSymInt, "int"}, {ValueKind::kSymFloat, "float"}, {ValueKind::kSymBool, "bool"}}};

// Inputs with an fqn. Buffers that are not persistent are "local_buffer".
constexpr std::array<std::pair<InputKind, std::string_view>, 4> kInputs = {
    {{InputKind::kParameter, "param"},
     {InputKind::kBuffer, "buffer"},
     {InputKind::kTensorConstant, "tensor"},
     {InputKind::kCustomObj, "object"}}};
constexpr std::string_view kLocalBuffer = "local_buffer";

struct OutputWord {
  OutputKind kind;
  std::string_view word;
  bool has_target;  // "fqn" = comes before the value
};
constexpr std::array<OutputWord, 7> kOutputs = {
    {{OutputKind::kBufferMutation, "mutate", true},
     {OutputKind::kParameterMutation, "mutate_param", true},
     {OutputKind::kUserInputMutation, "mutate_input", true},
     {OutputKind::kGradientToParameter, "grad_param", true},
     {OutputKind::kGradientToUserInput, "grad_input", true},
     {OutputKind::kLoss, "loss", false},
     {OutputKind::kToken, "token", false}}};

template <typename Table, typename Key>
std::string_view word_of(const Table& table, Key key) {
  for (const auto& [entry, word] : table)
    if (entry == key) return word;
  return {};
}

template <typename Table>
std::optional<typename Table::value_type::first_type> find_by_word(const Table& table,
                                                                   std::string_view word) {
  for (const auto& [key, text] : table)
    if (text == word) return key;
  return std::nullopt;
}

// The name of a node without one in the text: that of its only result, else its op's without
// namespace and overload.
inline std::string_view default_node_name(std::string_view target, const Value* only_result) {
  if (only_result != nullptr) return only_result->name();
  const size_t overload = target.rfind('.');
  if (overload != std::string_view::npos && overload > 0 && target.find('.') != overload)
    target = target.substr(0, overload);
  const size_t space = target.rfind('.');
  return space == std::string_view::npos ? target : target.substr(space + 1);
}

}  // namespace octet::text_words
