// Suggests names for one that was misspelled.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace octet {

// Up to `most` of the known names, the most similar first. Similar is what needs few insertions,
// deletions and replacements of characters, where the ends of names and what comes before a dot
// count less: "aten.conv2" is closer to "aten.conv2d.default" than to "aten.add.Tensor", and
// "Block" matches "my.Block".
std::vector<std::string> closest_names(const std::string& wanted,
                                       const std::set<std::string>& known, size_t most);

}  // namespace octet
