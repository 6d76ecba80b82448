// Reads tokenizer.json of the package tokenizers, and tokenizer_config.json beside it.
#include <fstream>
#include <functional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "backends/tokenizer/tokenizer.h"
#include "backends/tokenizer/unicode.h"
#include "core/base/error.h"
#include "core/base/json_text.h"
#include "core/base/printable.h"
#include "lowering/program/program_json.h"

namespace octet::tokenizer {
namespace {

using json = nlohmann::json;

class Reader {
 public:
  Reader(std::filesystem::path path, std::string_view bytes) : path_(std::move(path)) {
    tokenizer_.file = path_.string();
    try {
      read(parsed(bytes));
    } catch (const json::exception& error) {
      fail(fmt::format("is not a tokenizer.json: {}", first_line(error.what())));
    } catch (const Error& error) {
      if (error.subject() == path_.string()) throw;
      fail(error.without_stage());
    }
    try {
      read_config();
    } catch (const json::exception& error) {
      fail(
          fmt::format("has beside it a wrong tokenizer_config.json: {}", first_line(error.what())));
    }
  }
  Tokenizer take() { return std::move(tokenizer_); }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error("tokenizer", path_.string(), what);
  }

  json parsed(std::string_view text) const {
    if (nests_deeper(text, kDeepestJson)) fail("is not a tokenizer.json: it nests too deep");
    return json::parse(text);
  }

  // Calls the row of the component's type, or of each one in a Sequence.
  using Row = std::pair<const char*, std::function<void(const json&)>>;
  void read_component(const char* what, const char* parts, const json& component,
                      const std::vector<Row>& rows) {
    if (component.is_null()) return;
    const std::string type = component.at("type");
    if (type == "Sequence") {
      for (const json& part : component.at(parts)) read_component(what, parts, part, rows);
      return;
    }
    std::vector<std::string> known;
    for (const auto& [name, add] : rows) {
      if (type == name) return add(component);
      known.emplace_back(name);
    }
    fail(fmt::format("has the {} {}, want one of {}; use the package tokenizers in Python", what,
                     type, fmt::join(known, ", ")));
  }

  void read(const json& file) {
    if (!file.is_object() || !file.contains("model")) fail("is not a tokenizer.json: has no model");
    for (const char* const unread : {"truncation", "padding"})
      if (file.contains(unread) && !file.at(unread).is_null())
        fail(fmt::format("has {}, which changes texts; set it to null", unread));
    read_component("normalizer", "normalizers", file.value("normalizer", json()), normalizers());
    read_component("pre-tokenizer", "pretokenizers", file.value("pre_tokenizer", json()),
                   pre_tokenizers());
    read_component("decoder", "decoders", file.value("decoder", json()), decoders());
    read_model(file.at("model"));
    for (const json& token : file.value("added_tokens", json::array())) read_added(token);
    read_component("post-processor", "processors", file.value("post_processor", json()),
                   processors());
  }

  std::string pattern_of(const json& component) const {
    const json& pattern = component.at("pattern");
    if (pattern.contains("Regex")) return pattern.at("Regex");
    return quoted_regex(pattern.at("String"));
  }

  std::string plain_text_of(const char* what, const json& component) const {
    if (!component.at("pattern").contains("String"))
      fail(fmt::format("has a {} of a regex, want a String", what));
    return component.at("pattern").at("String");
  }

  std::vector<Row> normalizers() {
    return {
        {"NFC", [this](const json&) { tokenizer_.normalizers.emplace_back(normalization_form_c); }},
        {"Prepend",
         [this](const json& c) { tokenizer_.normalizers.push_back(prepend(c.at("prepend"))); }},
        {"Replace",
         [this](const json& c) {
           tokenizer_.normalizers.push_back(
               replace(plain_text_of("normalizer Replace", c), c.at("content")));
         }},
    };
  }

  Behavior behavior_of(const json& component) const {
    static constexpr const char* kNames[] = {"Removed", "Isolated", "MergedWithPrevious",
                                             "MergedWithNext", "Contiguous"};
    const std::string name = component.at("behavior");
    for (size_t i = 0; i < std::size(kNames); ++i)
      if (name == kNames[i]) return static_cast<Behavior>(i);
    fail(fmt::format("has a Split with the behavior {}, want one of {}", name,
                     fmt::join(kNames, ", ")));
  }

  Prepend scheme_of(const json& component) const {
    if (!component.contains("prepend_scheme"))
      return component.value("add_prefix_space", true) ? Prepend::kAlways : Prepend::kNever;
    const std::string name = component.at("prepend_scheme");
    if (name == "always") return Prepend::kAlways;
    if (name == "first") return Prepend::kFirst;
    if (name == "never") return Prepend::kNever;
    fail(fmt::format("has a Metaspace with the prepend_scheme {}, want always, first or never",
                     name));
  }

  std::vector<Row> pre_tokenizers() {
    return {
        {"ByteLevel",
         [this](const json& c) {
           tokenizer_.pre_tokenizers.push_back(
               byte_level(c.at("add_prefix_space"), c.value("use_regex", true)));
         }},
        {"Split",
         [this](const json& c) {
           tokenizer_.pre_tokenizers.push_back(
               split(pattern_of(c), behavior_of(c), c.at("invert")));
         }},
        {"Digits",
         [this](const json& c) {
           tokenizer_.pre_tokenizers.push_back(digits(c.at("individual_digits")));
         }},
        {"Metaspace",
         [this](const json& c) {
           tokenizer_.pre_tokenizers.push_back(
               metaspace(c.at("replacement"), scheme_of(c), c.value("split", true)));
         }},
    };
  }

  std::vector<Row> decoders() {
    return {
        {"ByteLevel", [this](const json&) { tokenizer_.decoders.push_back(decode_byte_level()); }},
        {"ByteFallback",
         [this](const json&) { tokenizer_.decoders.push_back(decode_byte_fallback()); }},
        {"Fuse", [this](const json&) { tokenizer_.decoders.push_back(fuse()); }},
        {"Replace",
         [this](const json& c) {
           tokenizer_.decoders.push_back(
               decode_replace(plain_text_of("decoder Replace", c), c.at("content")));
         }},
        {"Strip",
         [this](const json& c) {
           tokenizer_.decoders.push_back(
               decode_strip(c.at("content"), c.at("start"), c.at("stop")));
         }},
        {"Metaspace",
         [this](const json& c) {
           tokenizer_.decoders.push_back(decode_metaspace(c.at("replacement"), scheme_of(c)));
         }},
    };
  }

  std::vector<Row> processors() {
    return {
        {"ByteLevel", [](const json&) {}},  // changes offsets alone
        {"TemplateProcessing",
         [this](const json& c) {
           bool is_after = false;
           for (const json& part : c.at("single")) {
             if (part.contains("Sequence")) {
               is_after = true;
               continue;
             }
             const std::string name = part.at("SpecialToken").at("id");
             for (const json& id : c.at("special_tokens").at(name).at("ids"))
               (is_after ? tokenizer_.suffix : tokenizer_.prefix).push_back(id);
           }
         }},
    };
  }

  Id id_of(const json& number) const {
    constexpr int64_t kMost = 16'000'000;
    const int64_t id = number.is_number_integer() ? number.get<int64_t>() : -1;
    if (id < 0 || id > kMost)
      fail(fmt::format("has the token id {}, want 0 to {}", dump_json(number), kMost));
    return static_cast<Id>(id);
  }

  void read_model(const json& model) {
    const std::string type = model.value("type", "BPE");
    if (type != "BPE")
      fail(fmt::format("has the model {}, want BPE; use the package tokenizers in Python", type));
    for (const char* const name : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"})
      if (const json value = model.value(name, json()); !value.is_null() && value != "")
        fail(fmt::format("has a model with {} {}, want null", name, dump_json(value)));
    Bpe& to = tokenizer_.model;
    for (const auto& [token, id] : model.at("vocab").items()) to.add(token, id_of(id));
    for (const json& merge : model.at("merges")) read_merge(merge);
    if (const json unknown = model.value("unk_token", json()); !unknown.is_null()) {
      to.unknown = to.id_of(unknown);
      if (!to.unknown) fail(fmt::format("has the unk_token {}, not a token", dump_json(unknown)));
    }
    to.fuses_unknown = model.value("fuse_unk", false);
    to.has_bytes = model.value("byte_fallback", false);
    to.tries_whole = model.value("ignore_merges", false);
  }

  // ["a", "b"] or "a b".
  void read_merge(const json& merge) {
    std::string first, second;
    if (merge.is_array() && merge.size() == 2) {
      first = merge[0], second = merge[1];
    } else {
      const std::string text = merge;
      const size_t space = text.find(' ');
      first = text.substr(0, space);
      second = space == std::string::npos ? "" : text.substr(space + 1);
    }
    if (!tokenizer_.model.add_merge(first, second))
      fail(fmt::format("has the merge {}, whose parts or whole are not tokens",
                       short_line(dump_json(merge, -1, true), 80)));
  }

  void read_added(const json& token) {
    const AddedToken added = {.text = token.at("content"),
                              .id = id_of(token.at("id")),
                              .is_special = token.value("special", false),
                              .takes_left_space = token.value("lstrip", false),
                              .takes_right_space = token.value("rstrip", false),
                              .is_normalized = token.value("normalized", true)};
    if (token.value("single_word", false))
      fail(
          fmt::format("has the token {} with single_word, want false", printable_line(added.text)));
    tokenizer_.add(added);
  }

  // What a model's folder says about conversations; the files need not exist.
  void read_config() {
    const std::filesystem::path folder = path_.parent_path();
    std::ifstream config(folder / "tokenizer_config.json", std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(config)), {});
    const json given = text.empty() ? json::object() : parsed(text);
    const auto token = [&](const char* name) -> std::string {
      const json value = given.value(name, json());
      if (value.is_object()) return value.at("content");
      return value.is_string() ? value.get<std::string>() : std::string();
    };
    tokenizer_.begin_token = token("bos_token");
    tokenizer_.end_token = token("eos_token");
    const json form = given.value("chat_template", json());
    if (form.is_string()) tokenizer_.chat_template = form;
    if (form.is_array())
      for (const json& named : form)
        if (named.at("name") == "default") tokenizer_.chat_template = named.at("template");
    if (std::ifstream jinja(folder / "chat_template.jinja", std::ios::binary); jinja)
      tokenizer_.chat_template.assign(std::istreambuf_iterator<char>(jinja), {});
  }

  std::filesystem::path path_;
  Tokenizer tokenizer_;
};

}  // namespace

Tokenizer read_tokenizer_json(const std::filesystem::path& path, std::string_view bytes) {
  return Reader(path, bytes).take();
}

}  // namespace octet::tokenizer
