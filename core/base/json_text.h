// Reads and writes JSON text. The parser and the printer of nlohmann_json are templates that take
// the compiler a second in each source that calls them, so json_text.cpp calls them for all.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace octet {

// As Json::parse(). Json: nlohmann::json or nlohmann::ordered_json.
template <typename Json>
Json parse_json(const std::string& text, const typename Json::parser_callback_t& callback = nullptr,
                bool allow_exceptions = true);

// As Json::dump(): on one line, or with `indent` spaces for each level.
template <typename Json>
std::string dump_json(const Json& json, int indent = -1, bool ensure_ascii = false,
                      typename Json::error_handler_t error = Json::error_handler_t::strict);

}  // namespace octet
