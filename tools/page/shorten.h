// Shortens data that is too long to show: histograms of thousands of bins, weights of thousands of
// channels, insignificant digits.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace octet {

// Rounds floats to six digits. Shortens lists only if all of them together are large: merges
// neighboring bins by adding, and neighboring channels to the widest range, the largest scale and
// the lowest SQNR ("weight.channels" is the original number). Stack traces keep their end.
nlohmann::ordered_json shorten(const nlohmann::ordered_json& data);

}  // namespace octet
