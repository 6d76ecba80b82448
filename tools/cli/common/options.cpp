#include "tools/cli/common/options.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <span>
#include <sstream>
#include <type_traits>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "core/base/error.h"
#include "core/base/json_text.h"
#include "core/base/output_file.h"
#include "core/passes/pass.h"
#include "lowering/program/artifact_format.h"
#include "tools/cli/common/files.h"

namespace octet {
namespace {

// CLI11 would take -1 and numbers beyond 64 bits for the largest size.
std::string fault_of_bytes(const std::string& text) {
  constexpr size_t kDigits = 15;
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  if (digits > 0 && digits <= kDigits) return "";
  return fmt::format("got {}, want a number of bytes, such as 300M", text);
}

using Json = nlohmann::ordered_json;

std::string with(char separator, std::string name) {
  std::replace(name.begin(), name.end(), '_', separator);
  return name;
}

std::string command_name(const Option& option) {
  return (option.is_positional ? "" : "--") + with('-', option.name);
}

// --output and --outputs are also -o, as in compilers.
std::string command_names(const Option& option) {
  const bool is_main_output = option.name == "output" || option.name == "outputs";
  return (is_main_output ? "-o," : "") + command_name(option);
}

// "a", "a or b", "a, b or c"
std::string alternatives(const std::vector<std::string>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i];
  return text;
}

// Empty for a number of the type and the bound. CLI11 would take -3 for an unsigned number of 20
// digits.
template <typename Value>
std::string fault_of_number(const std::string& text, Option::Bound bound) {
  if (std::is_unsigned_v<Value> && bound == Option::Bound::kNone)
    bound = Option::Bound::kNotNegative;
  double number = 0;
  Value value{};
  const bool is_number = CLI::detail::lexical_cast(text, number) && !std::isnan(number);
  const bool has_sign = bound == Option::Bound::kPositive      ? number > 0
                        : bound == Option::Bound::kNotNegative ? number >= 0
                                                               : true;
  // CLI11 replaces integers beyond 64 bits by the nearest one.
  constexpr double kMost = static_cast<double>(std::numeric_limits<Value>::max());
  const bool fits = !std::is_integral_v<Value> || std::abs(number) < kMost;
  if (is_number && has_sign && fits && CLI::detail::lexical_cast(text, value)) return {};
  const bool is_whole = is_number && has_sign;
  return fmt::format("got {}, want a {}number{}", text, is_whole ? "whole " : "",
                     is_whole && !fits ? fmt::format(" of at most {} bits", 8 * sizeof(Value))
                     : bound == Option::Bound::kPositive    ? " above 0"
                     : bound == Option::Bound::kNotNegative ? " from 0"
                                                            : "");
}

// Adds one field to the command line, with what follows from its type.
struct FieldAdder {
  CLI::App& command;
  const Option& option;

  CLI::Option* operator()(bool* field) const {
    return command.add_flag(command_names(option), *field, option.help);
  }

  CLI::Option* operator()(const TextValue& value) const {
    CLI::Option* added = nullptr;
    if (option.is_repeated)
      added = command
                  .add_option_function<std::vector<std::string>>(
                      command_name(option),
                      [set = value.set](const std::vector<std::string>& texts) {
                        for (const std::string& text : texts) set(text);
                      },
                      option.help)
                  ->delimiter(',')
                  ->allow_extra_args(false);
    else
      added =
          command.add_option_function<std::string>(command_names(option), value.set, option.help);
    if (!value.names.empty()) added->check(CLI::IsMember(value.names));
    return added->default_str(value.get());
  }

  template <typename Value>
  CLI::Option* operator()(std::vector<Value>* field) const {
    CLI::Option* added =
        bounded<Value>(command.add_option(command_names(option), *field, option.help));
    if (option.is_positional)
      return option.most_count > 0 ? added->expected(option.least_count, option.most_count) : added;
    if (!option.is_repeated) added->delimiter(',');
    return added->allow_extra_args(false);
  }

  template <typename Value>
  CLI::Option* operator()(std::optional<Value>* field) const {
    return bounded<Value>(command.add_option(command_names(option), *field, option.help));
  }

  template <typename Value>
  CLI::Option* operator()(Value* field) const {
    CLI::Option* added =
        bounded<Value>(command.add_option(command_names(option), *field, option.help));
    return option.hides_default ? added : added->capture_default_str();
  }

  template <typename Value>
  CLI::Option* bounded(CLI::Option* added) const {
    if constexpr (std::is_arithmetic_v<Value>)
      added->check([bound = option.bound](
                       const std::string& text) { return fault_of_number<Value>(text, bound); },
                   option.bound == Option::Bound::kPositive      ? "POSITIVE"
                   : option.bound == Option::Bound::kNotNegative ? "NONNEGATIVE"
                                                                 : "");
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
  if (option.is_size)
    added->option_text("BYTES")
        ->transform(CLI::AsSizeValue(false))
        ->transform(CLI::Validator(fault_of_bytes, ""));  // runs first
  if (option.reads_stdin) added->transform(input_path, "");
  if (option.writes_stdout) added->transform(output_path, "");
  if (!option.excluded.empty())
    added->excludes(command.get_option("--" + with('-', option.excluded)));
  if (!option.needed.empty()) added->needs(command.get_option("--" + with('-', option.needed)));
  added->required(option.is_required);
}

struct FieldJson {
  Json operator()(const TextValue& value) const {
    const std::string text = value.get();
    return text.empty() ? Json(nullptr) : Json(text);
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

  void operator()(const TextValue& value) const {
    if (!json.is_null()) value.set(json.get<std::string>());
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
  if (!value.is_string()) return dump_json(value);
  std::string text;
  std::istringstream parts(value.get<std::string>());
  for (std::string part; std::getline(parts, part, ',');) {
    const std::string sum = checksum_of(part);
    text += (text.empty() ? "" : ",") + (sum.empty() ? part : sum.substr(1));
  }
  return text;
}

struct NamedFile {
  std::string option, path;
  bool is_output;
};

// The files that options name. An input may be a list of names with commas between them.
std::vector<NamedFile> named_files(const Options& options) {
  std::vector<NamedFile> files;
  const auto add = [&](const Option& option, const std::string& path) {
    if (!path.empty()) files.push_back({command_name(option), path, option.is_output});
  };
  for (const Option& option : options) {
    if (!option.choices.empty()) continue;
    std::vector<std::string> paths;
    if (const auto* text = std::get_if<std::string*>(&option.field)) paths = {**text};
    if (const auto* list = std::get_if<std::vector<std::string>*>(&option.field)) paths = **list;
    for (const std::string& path : paths) {
      add(option, path);
      if (option.name == "onnx") add(option, path + ".data");
      if (option.is_output || path.find(',') == std::string::npos) continue;
      for (const std::string& part : CLI::detail::split(path, ',')) add(option, part);
    }
  }
  return files;
}

}  // namespace

Option print_after_option() {
  return Option{"print_after", TextValue{print_after},
                "Print the program after these passes on stderr; OCTET_DEBUG=passes in the "
                "environment prints it after each pass, and verifies it"}
      .repeated()
      .for_command();
}

Options joined(std::initializer_list<Options> parts) {
  Options all;
  for (const Options& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

void add_options(CLI::App& command, const Options& options) {
  for (const Option& option : options) add_option(command, option);
}

void check_outputs(const std::string& command, const Options& options) {
  const std::vector<NamedFile> files = named_files(options);
  for (const NamedFile& output : files) {
    if (!output.is_output) continue;
    for (const NamedFile& other : files)
      if (&other != &output && is_same_file(output.path, other.path))
        throw Error(command, output.path,
                    fmt::format("is named by {} and by {}, want a separate file for each output; "
                                "name another one",
                                other.option, output.option));
  }
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
