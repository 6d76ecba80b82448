// The header of Catch2's second version, for which the tests are written, on top of the third
// (Debian 13's), which renamed some names.
#pragma once

#include <catch2/catch_all.hpp>

using Catch::Approx;

namespace Catch {

using Matchers::EndsWith;
using Matchers::Equals;
using Matchers::MatcherBase;
using Matchers::StartsWith;

namespace Matchers {
inline auto Contains(const char* part) { return ContainsSubstring(part); }
inline auto Contains(std::string part) { return ContainsSubstring(part); }
}  // namespace Matchers

using Matchers::Contains;

}  // namespace Catch
