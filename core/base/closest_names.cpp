#include "core/base/closest_names.h"

#include <algorithm>
#include <utility>

namespace octet {
namespace {

// Edit distances from `a` to the closest prefix of `b`, and to all of `b`. "aten.conv2" is closer
// to "aten.conv2d.default" than to "aten.add.Tensor".
std::pair<size_t, size_t> edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return {*std::min_element(row.begin(), row.end()), row[b.size()]};
}

// The least edit distance to a suffix of `b` that starts after a dot: "Block" matches "my.Block",
// and "linaer" is closer to "aten.linear.default" than to "aten.add.Tensor".
std::pair<size_t, size_t> least_distance(const std::string& a, const std::string& b) {
  std::pair<size_t, size_t> least = edit_distance(a, b);
  for (size_t dot = b.find('.'); dot != std::string::npos; dot = b.find('.', dot + 1))
    least = std::min(least, edit_distance(a, b.substr(dot + 1)));
  return least;
}

}  // namespace

std::vector<std::string> closest_names(const std::string& wanted,
                                       const std::set<std::string>& known, size_t most) {
  std::vector<std::pair<std::pair<size_t, size_t>, std::string>> ranked;
  for (const std::string& name : known) ranked.emplace_back(least_distance(wanted, name), name);
  std::sort(ranked.begin(), ranked.end());
  ranked.resize(std::min(ranked.size(), most));
  std::vector<std::string> names;
  for (const auto& [distance, name] : ranked) names.push_back(name);
  return names;
}

}  // namespace octet
