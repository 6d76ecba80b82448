#include "core/graph/origin.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"

namespace octet {
namespace {

// Names are separated by spaces, which no node's name has.
std::string joined_names(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, " "));
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    if (end > 0) parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

// False unless it is a list of integers; only files from elsewhere have others.
template <class Integer>
bool parse_integers(std::string_view text, std::vector<Integer>& integers) {
  for (const std::string& part : split(text, ',')) {
    Integer value = 0;
    const auto [end, fault] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (fault != std::errc() || end != part.data() + part.size()) return false;
    integers.push_back(value);
  }
  return true;
}

// The exponents of `factors` at each element of `shape`.
std::vector<int> broadcast(const ChannelFactors& factors, const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  std::vector<int> exponents(static_cast<size_t>(count));
  for (int64_t element = 0; element < count; ++element) {
    int64_t rest = element, source = 0, stride = 1;
    for (size_t d = shape.size(); d-- > 0;) {
      const int64_t position = rest % shape[d];
      rest /= shape[d];
      if (factors.shape[d] != 1) source += position * stride;
      stride *= factors.shape[d];
    }
    exponents[static_cast<size_t>(element)] = factors.exponents[static_cast<size_t>(source)];
  }
  return exponents;
}

}  // namespace

void set_origins(Graph& graph) {
  for (Node* node : graph.nodes()) node->metadata.try_emplace(kOriginKey, node->name());
}

std::vector<std::string> origins_of(const Node& node) {
  const auto found = node.metadata.find(kOriginKey);
  if (found == node.metadata.end()) return {node.name()};
  return split(found->second, ' ');
}

void absorb_after(Node& node, const Node& after) {
  std::vector<std::string> names = origins_of(node);
  for (std::string& name : origins_of(after)) names.push_back(std::move(name));
  node.metadata[kOriginKey] = joined_names(names);
}

void absorb_before(Node& node, const Node& before) {
  std::vector<std::string> names = origins_of(before);
  for (std::string& name : origins_of(node)) names.push_back(std::move(name));
  node.metadata[kOriginKey] = joined_names(names);
}

void forget_origin(Node& node) { node.metadata[kOriginKey] = ""; }

ChannelFactors channel_factors_of(const Node& node) {
  const auto found = node.metadata.find(kChannelFactorsKey);
  if (found == node.metadata.end()) return {};
  const size_t middle = found->second.find(';');
  ChannelFactors factors;
  const std::string_view text = found->second;
  if (middle == std::string::npos || !parse_integers(text.substr(0, middle), factors.shape) ||
      !parse_integers(text.substr(middle + 1), factors.exponents))
    return {};
  size_t count = 1;
  for (int64_t size : factors.shape) {
    if (size < 1 || static_cast<uint64_t>(size) > factors.exponents.size()) return {};
    count *= static_cast<size_t>(size);
  }
  return count == factors.exponents.size() ? factors : ChannelFactors{};
}

void multiply_channel_factors(Node& node, const ChannelFactors& factors) {
  ChannelFactors product = factors;
  const ChannelFactors before = channel_factors_of(node);
  if (!before.shape.empty()) {
    OCTET_ASSERT(before.shape.size() == factors.shape.size(), "factors of one value");
    for (size_t d = 0; d < factors.shape.size(); ++d)
      product.shape[d] = std::max(before.shape[d], factors.shape[d]);
    product.exponents = broadcast(factors, product.shape);
    const std::vector<int> old = broadcast(before, product.shape);
    for (size_t i = 0; i < old.size(); ++i) product.exponents[i] += old[i];
  }
  const bool is_one =
      std::ranges::all_of(product.exponents, [](int exponent) { return exponent == 0; });
  if (is_one) {
    node.metadata.erase(kChannelFactorsKey);
    return;
  }
  node.metadata[kChannelFactorsKey] =
      fmt::format("{};{}", fmt::join(product.shape, ","), fmt::join(product.exponents, ","));
}

}  // namespace octet
