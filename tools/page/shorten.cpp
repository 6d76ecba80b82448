#include "tools/page/page.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace octet {
namespace {

using LongJson = nlohmann::ordered_json;

// Limits, at about 8 characters per number: 5 MB of channels, 3 MB of bins, 3 MB of stack traces.
constexpr size_t kMostChannelNumbers = 600'000;
constexpr size_t kMostBins = 400'000;
constexpr size_t kMostTraceBytes = 3'000'000;
constexpr size_t kLongestTrace = 3000;  // for one op
constexpr size_t kLongestText = 20'000;

double round_to_six(double value) {
  const bool is_whole = value == std::trunc(value) && std::abs(value) < 1e15;
  return std::isfinite(value) && !is_whole
             ? std::strtod(fmt::format("{:.6g}", value).c_str(), nullptr)
             : value;
}

void round_numbers(LongJson& value) {
  if (value.is_number_float()) {
    const double number = value.get<double>();
    if (std::isinf(number))
      value = number > 0 ? "inf" : "-inf";
    else
      value = round_to_six(number);
  } else if (value.is_structured()) {
    for (LongJson& item : value) round_numbers(item);
  } else if (value.is_string()) {
    std::string& text = value.get_ref<std::string&>();
    if (text.size() > kLongestText) text.resize(kLongestText);
  }
}

double number_or_infinity(const LongJson& value) {
  if (value.is_number()) return value.get<double>();
  return value.is_string() && value == "-inf" ? -HUGE_VAL : HUGE_VAL;
}

LongJson join(const LongJson& list, size_t length, double (*choose)(double, double)) {
  LongJson result = LongJson::array();
  const size_t size = list.size();
  for (size_t i = 0; i < length; ++i) {
    const size_t begin = i * size / length, end = (i + 1) * size / length;
    LongJson best = nullptr;
    for (size_t k = begin; k < end; ++k) {
      if (list[k].is_null()) continue;
      const bool is_first = best.is_null();
      if (is_first ||
          choose(number_or_infinity(list[k]), number_or_infinity(best)) != number_or_infinity(best))
        best = list[k];
    }
    result.push_back(std::move(best));
  }
  return result;
}

double least(double a, double b) { return std::min(a, b); }
double largest(double a, double b) { return std::max(a, b); }

LongJson add_up(const LongJson& counts, size_t length) {
  LongJson result = LongJson::array();
  for (size_t i = 0; i < length; ++i) {
    double sum = 0;
    for (size_t k = i * counts.size() / length; k < (i + 1) * counts.size() / length; ++k)
      sum += counts[k].is_number() ? counts[k].get<double>() : 0;
    result.push_back(sum);
  }
  return result;
}

struct ChannelList {
  const char* name;
  double (*choose)(double, double);
};
constexpr ChannelList kChannelLists[] = {
    {"min", least}, {"max", largest}, {"scale", largest}, {"sqnr_db", least}};

LongJson* find_list(LongJson& object, const char* outer, const char* inner) {
  const auto found = object.find(outer);
  if (found == object.end() || !found->is_object()) return nullptr;
  const auto list = found->find(inner);
  return list == found->end() || !list->is_array() ? nullptr : &*list;
}

LongJson* find_counts(LongJson& node) {
  const auto output = node.find("output");
  if (output == node.end() || !output->is_object()) return nullptr;
  return find_list(*output, "histogram", "counts");
}

// The largest power of two such that lists of at most this length have `most` elements together.
size_t longest_list(const std::vector<size_t>& sizes, size_t most) {
  size_t length = size_t{1} << 20;
  for (; length > 8; length /= 2) {
    size_t all = 0;
    for (const size_t size : sizes) all += std::min(size, length);
    if (all <= most) break;
  }
  return length;
}

void shorten_weights(LongJson& nodes) {
  std::vector<size_t> sizes;
  for (LongJson& node : nodes)
    for (const ChannelList& channels : kChannelLists)
      if (const LongJson* list = find_list(node, "weight", channels.name))
        sizes.push_back(list->size());
  const size_t length = longest_list(sizes, kMostChannelNumbers);
  for (LongJson& node : nodes)
    for (const ChannelList& channels : kChannelLists) {
      LongJson* list = find_list(node, "weight", channels.name);
      if (list == nullptr || list->size() <= length) continue;
      const size_t count = list->size();
      *list = join(*list, length, channels.choose);
      node["weight"]["channels"] = count;  // last: a new key moves the others
    }
}

void shorten_histograms(LongJson& nodes) {
  constexpr size_t kMostOnScreen = 256;
  std::vector<size_t> sizes;
  for (LongJson& node : nodes)
    if (const LongJson* counts = find_counts(node)) sizes.push_back(counts->size());
  const size_t length = std::min(kMostOnScreen, longest_list(sizes, kMostBins));
  for (LongJson& node : nodes)
    if (LongJson* counts = find_counts(node); counts != nullptr && counts->size() > length)
      *counts = add_up(*counts, length);
}

void shorten_traces(LongJson& nodes) {
  size_t all = 0;
  const auto trace_of = [](LongJson& node) -> std::string* {
    const auto found = node.find("stack_trace");
    return found != node.end() && found->is_string() ? &found->get_ref<std::string&>() : nullptr;
  };
  for (LongJson& node : nodes)
    if (const std::string* trace = trace_of(node)) all += std::min(trace->size(), kLongestTrace);
  const size_t length =
      all <= kMostTraceBytes ? kLongestTrace : kMostTraceBytes / std::max<size_t>(nodes.size(), 1);
  for (LongJson& node : nodes)
    if (std::string* trace = trace_of(node); trace != nullptr && trace->size() > length) {
      // cuts at a line, so that no character is split
      const size_t line = trace->find('\n', trace->size() - length);
      *trace = line == std::string::npos ? std::string() : trace->substr(line + 1);
    }
}

}  // namespace

nlohmann::ordered_json shorten(const nlohmann::ordered_json& data) {
  LongJson result = data;
  const auto nodes = result.find("nodes");
  if (nodes != result.end() && nodes->is_array()) {
    shorten_weights(*nodes);
    shorten_histograms(*nodes);
    shorten_traces(*nodes);
  }
  round_numbers(result);
  return result;
}

}  // namespace octet
