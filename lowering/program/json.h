// Defines a JSON type that the runtime can destroy when memory is exhausted. The destructor of
// nlohmann::json allocates a list of the nested values, and ends the process if that fails; this
// destructor allocates nothing, but recurses. So check the depth of untrusted text first
// (nests_deeper).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace octet {

// Makes Json a type distinct from nlohmann::json.
template <typename T, typename Unused = void>
struct JsonSerializer : nlohmann::adl_serializer<T, Unused> {};

using Json = nlohmann::basic_json<std::map, std::vector, std::string, bool, int64_t, uint64_t,
                                  double, std::allocator, JsonSerializer>;

}  // namespace octet

template <>
inline void octet::Json::json_value::destroy(octet::Json::value_t type) {
  switch (type) {
    case octet::Json::value_t::object: delete object; break;
    case octet::Json::value_t::array: delete array; break;
    case octet::Json::value_t::string: delete string; break;
    case octet::Json::value_t::binary: delete binary; break;
    default: break;
  }
}
