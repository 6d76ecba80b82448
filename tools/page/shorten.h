// What of a page's data is too long to be shown: histograms of thousands of bins, weights of
// thousands of channels, digits that nobody reads.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace octet {

// The same data with floats of six digits. Lists get shorter only when all of them together are
// large: neighbouring bins are added up, and neighbouring channels become one with the widest
// range, the largest scale and the lowest SQNR ("weight.channels" then says how many there were).
// Stack traces keep their end.
nlohmann::ordered_json shorten(const nlohmann::ordered_json& data);

}  // namespace octet
