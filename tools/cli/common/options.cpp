#include "tools/cli/common/options.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <span>
#include <sstream>
#include <type_traits>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "core/passes/pass.h"
#include "lowering/program/artifact_format.h"
#include "tools/cli/common/files.h"

namespace octet {
namespace {

using Json = nlohmann::ordered_json;

std::string with(char separator, std::string name) {
  std::replace(name.begin(), name.end(), '_', separator);
  return name;
}

std::string command_name(const Option& option) {
  return (option.is_positional ? "" : "--") + with('-', option.name);
}

// "a", "a or b", "a, b or c"
std::string alternatives(const std::vector<std::string>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i];
  return text;
}

// Adds one field to the command line, with what follows from its type.
struct FieldAdder {
  CLI::App& command;
  const Option& option;

  CLI::Option* operator()(bool* field) const {
    return command.add_flag(command_name(option), *field, option.help);
  }

  CLI::Option* operator()(const NamedValue& value) const {
    CLI::Option* added = command.add_option_function<std::string>(
        command_name(option),
        [value](const std::string& text) {
          for (size_t i = 0; i < value.names.size(); ++i)
            if (value.names[i] == text) value.set(i);
        },
        option.help);
    added->check(CLI::IsMember(value.names));
    if (const std::optional<size_t> now = value.get()) added->default_str(value.names[*now]);
    return added;
  }

  template <typename Value>
  CLI::Option* operator()(std::vector<Value>* field) const {
    return bounded<Value>(command.add_option(command_name(option), *field, option.help))
        ->delimiter(',')
        ->allow_extra_args(false);
  }

  template <typename Value>
  CLI::Option* operator()(std::optional<Value>* field) const {
    return bounded<Value>(command.add_option(command_name(option), *field, option.help));
  }

  template <typename Value>
  CLI::Option* operator()(Value* field) const {
    CLI::Option* added = command.add_option(command_name(option), *field, option.help);
    return bounded<Value>(added)->capture_default_str();
  }

  template <typename Value>
  CLI::Option* bounded(CLI::Option* added) const {
    if (option.bound == Option::Bound::kPositive) added->check(CLI::PositiveNumber);
    if (option.bound == Option::Bound::kNotNegative) added->check(CLI::NonNegativeNumber);
    if (option.bound != Option::Bound::kRange) return added;
    return std::is_floating_point_v<Value>
               ? added->check(CLI::Range(option.least, option.most))
               : added->check(
                     CLI::Range(static_cast<int>(option.least), static_cast<int>(option.most)));
  }
};

void add_option(CLI::App& command, const Option& option) {
  CLI::Option* added = std::visit(FieldAdder{command, option}, option.field);
  if (!option.choices.empty()) added->check(CLI::IsMember(option.choices));
  if (!option.endings.empty())
    added->check([endings = option.endings](const std::string& path) {
      for (const std::string& ending : endings)
        if (path.ends_with(ending)) return std::string();
      return "want a name that ends in " + alternatives(endings);
    });
  if (option.reads_stdin) accept_standard_input(added);
  if (option.writes_stdout) accept_standard_output(added);
  if (!option.excluded.empty())
    added->excludes(command.get_option("--" + with('-', option.excluded)));
  added->required(option.is_required);
}

struct FieldJson {
  Json operator()(const NamedValue& value) const {
    const std::optional<size_t> now = value.get();
    return now ? Json(value.names[*now]) : Json(nullptr);
  }
  template <typename Value>
  Json operator()(const std::optional<Value>* field) const {
    return *field ? Json(**field) : Json(nullptr);
  }
  template <typename Value>
  Json operator()(const Value* field) const {
    return Json(*field);
  }
};

struct FieldReader {
  const Json& json;

  void operator()(const NamedValue& value) const {
    if (json.is_null()) return;
    for (size_t i = 0; i < value.names.size(); ++i)
      if (value.names[i] == json.get<std::string>()) value.set(i);
  }
  template <typename Value>
  void operator()(std::optional<Value>* field) const {
    if (json.is_null())
      field->reset();
    else
      *field = json.get<Value>();
  }
  template <typename Value>
  void operator()(Value* field) const {
    *field = json.get<Value>();
  }
};

std::string text_of(const Option& option) {
  const Json value = std::visit(FieldJson(), option.field);
  if (value.is_null() || value == "") return "none";
  if (!value.is_string()) return value.dump();
  std::string text;
  std::istringstream parts(value.get<std::string>());
  for (std::string part; std::getline(parts, part, ',');) {
    const std::string sum = checksum_of(part);
    text += (text.empty() ? "" : ",") + (sum.empty() ? part : sum.substr(1));
  }
  return text;
}

}  // namespace

Option other_options(std::function<void(CLI::App&)> add) {
  return {.name = {},
          .field = {},
          .help = {},
          .is_key = false,
          .is_command = true,
          .add = std::move(add)};
}

void add_print_after_option(CLI::App& command) {
  command
      .add_option_function<std::vector<std::string>>(
          "--print-after",
          [](const std::vector<std::string>& names) {
            for (const std::string& name : names) print_after(name);
          },
          "Print the program after these passes on stderr; OCTET_DEBUG=passes in the environment "
          "prints it after each pass, and verifies it")
      ->delimiter(',')
      ->allow_extra_args(false);
}

Options joined(std::initializer_list<Options> parts) {
  Options all;
  for (const Options& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

void add_options(CLI::App& command, const Options& options) {
  for (const Option& option : options)
    option.add ? option.add(command) : add_option(command, option);
}

Json to_json(const Options& options) {
  Json json = Json::object();
  for (const Option& option : options)
    if (option.is_key) json[option.name] = std::visit(FieldJson(), option.field);
  return json;
}

void read_json(const Options& options, const Json& json) {
  for (const Option& option : options)
    if (option.is_key) std::visit(FieldReader{json.at(option.name)}, option.field);
}

std::string describe(const Options& options) {
  std::vector<std::string> parts;
  for (const Option& option : options) {
    if (!option.is_key) continue;
    parts.push_back(fmt::format("{} {}", with(' ', option.name), text_of(option)));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string checksum_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file || std::filesystem::is_directory(path)) return {};
  Checksum sum;
  for (std::vector<char> block(1 << 20);
       file.read(block.data(), static_cast<std::streamsize>(block.size())) || file.gcount() > 0;)
    sum.add(std::as_bytes(std::span(block.data(), static_cast<size_t>(file.gcount()))));
  return fmt::format(" {:016x}", sum.value());
}

}  // namespace octet
