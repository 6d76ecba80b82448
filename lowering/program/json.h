// JSON values of files that the runtime reads. The destructor of nlohmann::json takes memory, for a
// list of what is nested in it, and ends the process where there is none; this one takes none. Not
// for texts that nest without limit (nests_deeper).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace octet {

// Makes Json another type than nlohmann::json.
template <typename T, typename Unused = void>
struct JsonSerializer : nlohmann::adl_serializer<T, Unused> {};

using Json = nlohmann::basic_json<std::map, std::vector, std::string, bool, int64_t, uint64_t,
                                  double, std::allocator, JsonSerializer>;

}  // namespace octet

template <>
inline void octet::Json::json_value::destroy(octet::Json::value_t type) {
  switch (type) {
    case octet::Json::value_t::object:
      delete object;
      break;
    case octet::Json::value_t::array:
      delete array;
      break;
    case octet::Json::value_t::string:
      delete string;
      break;
    case octet::Json::value_t::binary:
      delete binary;
      break;
    default:
      break;
  }
}
