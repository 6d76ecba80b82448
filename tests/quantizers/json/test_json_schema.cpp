// The schema for editors agrees with the reader, whose errors list the keys and words that it
// takes.
#include <catch2/catch.hpp>

#include <algorithm>
#include <fstream>

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "quantizers/registry.h"

namespace octet::test_json_schema {
namespace {

using Json = nlohmann::ordered_json;
using Words = std::vector<std::string>;

Json read_json(const std::string& path) {
  std::ifstream stream(OCTET_TEST_DATA "/" + path);
  return Json::parse(stream);
}

// "..., want one of a, b, c" -> {"a", "b", "c"}, sorted.
Words wanted_words(const std::string& message) {
  const std::string mark = "want one of ";
  const size_t begin = message.find(mark);
  if (begin == std::string::npos) return {message};
  Words words;
  std::string rest = message.substr(begin + mark.size()) + ", ";
  for (size_t end = rest.find(", "); end != std::string::npos;
       rest.erase(0, end + 2), end = rest.find(", "))
    words.push_back(rest.substr(0, end));
  std::sort(words.begin(), words.end());
  return words;
}

// What the reader wants at a place of one of the table's files, as its message for `value` says.
Words words_at(const std::string& file, const std::string& path, const Json& value) {
  Json changed = read_json("quantizers/wrong_files.json").at("files").at(file);
  changed[Json::json_pointer(path)] = value;
  try {
    parse_quantizer(changed.dump(), "q.json");
  } catch (const Error& error) {
    return wanted_words(error.what());
  }
  return {"no error"};
}

Words keys_of(const Json& properties) {
  Words keys;
  for (const auto& [key, value] : properties.items())
    if (key != "$schema") keys.push_back(key);
  std::sort(keys.begin(), keys.end());
  return keys;
}

Words sorted(Words words) {
  std::sort(words.begin(), words.end());
  return words;
}

struct Object {
  const char* definition;
  const char* file;
  const char* path;  // of the object in the file
};

}  // namespace

TEST_CASE("every object of the schema has the keys that the reader takes",
          "[quantizers][json][schema]") {
  const Json definitions = read_json("../quantizers/quantizer.schema.json").at("definitions");
  const Object objects[] = {
      {"declared", "npu", ""},
      {"based", "base", ""},
      {"composition", "list", ""},
      {"row", "npu", "/patterns/0"},
      {"own_spec", "npu", "/specs/act"},
      {"fixed_spec", "npu", "/specs/prob"},
      {"derived_spec", "npu", "/specs/bias"},
      {"shared_spec", "npu", "/patterns/1/inputs/b"},
      {"all_same_spec", "npu", "/patterns/2/inputs/x"},
      {"tensor_constraint", "npu", "/patterns/3/constraints/x"},
      {"op_constraint", "npu", "/patterns/0/constraints/op"},
      {"observer", "npu", "/specs/act/observer"},
      {"symmetric_options", "base", "/global"},
      {"opaque_part", "npu", "/opaque/0"},
      {"declared_options", "npu", "/global"},
  };
  for (const Object& object : objects) {
    CAPTURE(object.definition);
    CHECK(keys_of(definitions.at(object.definition).at("properties")) ==
          words_at(object.file, std::string(object.path) + "/no_such_key", 0));
  }
  const Json with_choices = {{"pattern", "relu(x)"},
                             {"dtype_configs", Json::array({Json{{"no_such_key", 0}}})}};
  CHECK(keys_of(definitions.at("dtype_config").at("properties")) ==
        words_at("npu", "/patterns/-", with_choices));
  const auto of_base = [](const char* base) {
    try {
      parse_quantizer(R"({"base": ")" + std::string(base) + R"(", "global": {"no_such_key": 0}})",
                      "q.json");
    } catch (const Error& error) {
      return wanted_words(error.what());
    }
    return Words();
  };
  CHECK(keys_of(definitions.at("x86_options").at("properties")) == of_base("x86"));
  CHECK(keys_of(definitions.at("embedding_options").at("properties")) == of_base("embedding"));
  const Json affine = {{"name", "affine_min_max"}, {"no_such_key", 0}};
  CHECK(keys_of(definitions.at("affine_observer").at("properties")) ==
        words_at("npu", "/specs/act/observer", affine));
}

TEST_CASE("every list of words in the schema is the reader's", "[quantizers][json][schema]") {
  const Json definitions = read_json("../quantizers/quantizer.schema.json").at("definitions");
  const auto words = [&](const char* name) {
    return sorted(definitions.at(name).at("enum").get<Words>());
  };
  CHECK(words("qscheme") == words_at("npu", "/specs/act/qscheme", "x"));
  CHECK(words("quantized_dtype") == words_at("npu", "/specs/act/dtype", "x"));
  CHECK(words("integer_dtype") == words_at("npu", "/specs/prob/dtype", "x"));
  CHECK(words("observer_name") == words_at("npu", "/specs/act/observer", "x"));
  CHECK(words("derivation") == words_at("npu", "/specs/bias/derive", "x"));
  CHECK(words("base_name") == words_at("base", "/base", "x"));
  CHECK(words("owner") == words_at("npu", "/patterns/2/owner", "x"));
  const auto affine = [](const char* key) { return Json{{"name", "affine_min_max"}, {key, "x"}}; };
  CHECK(words("granularity") == words_at("npu", "/specs/act/observer", affine("granularity")));
  CHECK(words("mapping_type") == words_at("npu", "/specs/act/observer", affine("mapping_type")));
  CHECK(words("zero_point_domain") ==
        words_at("npu", "/specs/act/observer", affine("zero_point_domain")));
}

}  // namespace octet::test_json_schema
