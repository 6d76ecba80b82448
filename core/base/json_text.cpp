#include "core/base/json_text.h"

namespace octet {

template <typename Json>
Json parse_json(const std::string& text, const typename Json::parser_callback_t& callback,
                bool allow_exceptions) {
  return Json::parse(text, callback, allow_exceptions);
}

template <typename Json>
std::string dump_json(const Json& json, int indent, bool ensure_ascii,
                      typename Json::error_handler_t error) {
  return json.dump(indent, ' ', ensure_ascii, error);
}

#define OCTET_JSON_TEXT(JSON)                                                               \
  template JSON parse_json<JSON>(const std::string&, const JSON::parser_callback_t&, bool); \
  template std::string dump_json<JSON>(const JSON&, int, bool, JSON::error_handler_t);
OCTET_JSON_TEXT(nlohmann::json)
OCTET_JSON_TEXT(nlohmann::ordered_json)
#undef OCTET_JSON_TEXT

}  // namespace octet
