// Describes each option of a command once. The command line and its --help, the keys and settings
// in checkpoints, and the arguments of the Python functions are derived from this description.
//
// A record of options has a function options_of(record) that lists its fields. A new option is a
// field, a row in that list, and the code that uses it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

namespace CLI {
class App;
}

namespace octet {

// A value that is read and set as text: an enum by the names of its values, a path, or an action.
struct TextValue {
  std::function<void(const std::string&)> set;
  std::function<std::string()> get = [] { return std::string(); };  // "": none
  std::vector<std::string> names = {};                              // allowed texts; empty: all
};

template <typename Enum>
TextValue named(Enum& field, std::vector<std::pair<const char*, Enum>> values) {
  TextValue named;
  for (const auto& [name, value] : values) named.names.emplace_back(name);
  named.get = [&field, values] {
    for (const auto& [name, value] : values)
      if (value == field) return std::string(name);
    return std::string();
  };
  named.set = [&field, values](const std::string& text) {
    for (const auto& [name, value] : values)
      if (name == text) field = value;
  };
  return named;
}

struct Option {
  // Points into the record, which must outlive the option.
  using Field =
      std::variant<std::string*, bool*, int*, int64_t*, size_t*, double*, std::optional<int64_t>*,
                   std::optional<size_t>*, std::optional<double>*, std::vector<std::string>*,
                   std::vector<size_t>*, TextValue>;
  // What a string means. For files, Python also takes a path; for the last four it also takes the
  // batches, labels, settings or function themselves.
  enum class Kind { kText, kFile, kData, kLabels, kSettings, kFunction };
  enum class Bound { kNone, kPositive, kNotNegative, kRange };

  std::string name;  // "weight_bits", as in Python and in checkpoints; --weight-bits
  Field field;
  std::string help;
  std::vector<std::string> choices = {};
  Kind kind = Kind::kText;
  Bound bound = Bound::kNone;
  double least = 0, most = 0;  // for kRange
  bool is_required = false, is_positional = false;
  bool is_repeated = false;  // given once for each element of the list, not separated by commas
  int least_count = 0, most_count = 0;              // of positional arguments; 0: any number
  bool is_size = false;                             // bytes, also as 300M
  bool hides_default = false;                       // in --help
  bool is_output = false;                           // a file that is written
  bool reads_stdin = false, writes_stdout = false;  // for "-"
  bool is_key = true;                      // whether a checkpoint fits only runs with this value
  bool is_command = false;                 // not an argument in Python
  std::string excluded = {}, needed = {};  // options that it cannot be, and must be, combined with
  std::vector<std::string> endings = {};   // allowed suffixes of the file's name

  Option one_of(std::vector<std::string> names) && { return choices = std::move(names), take(); }
  Option of_kind(Kind what) && { return kind = what, take(); }
  Option file() && { return kind = Kind::kFile, take(); }
  Option positive() && { return bound = Bound::kPositive, take(); }
  Option not_negative() && { return bound = Bound::kNotNegative, take(); }
  Option between(double a, double b) && {
    return bound = Bound::kRange, least = a, most = b, take();
  }
  Option required() && { return is_required = true, take(); }
  Option positional() && { return is_positional = true, take(); }
  Option repeated() && { return is_repeated = true, take(); }
  Option counted(int a, int b) && { return least_count = a, most_count = b, take(); }
  Option bytes() && { return is_size = true, take(); }
  Option without_default() && { return hides_default = true, take(); }
  Option from_stdin() && { return reads_stdin = true, take(); }
  Option output() && { return is_output = is_command = true, is_key = false, take(); }
  Option to_stdout() && { return writes_stdout = true, std::move(*this).output(); }
  Option without_key() && { return is_key = false, take(); }
  Option for_command() && { return is_command = true, is_key = false, take(); }
  Option excludes(std::string other) && { return excluded = std::move(other), take(); }
  Option needs(std::string other) && { return needed = std::move(other), take(); }
  Option ends_in(std::vector<std::string> all) && { return endings = std::move(all), take(); }

 private:
  Option take() { return std::move(*this); }
};

using Options = std::vector<Option>;

// --print-after NAME: core/passes/pass.h.
Option print_after_option();
Options joined(std::initializer_list<Options> parts);

// Adds the options in order. --help shows the defaults of numbers and of texts with choices.
void add_options(CLI::App& command, const Options& options);
// Throws Error(command, file, ...) when an output is the same file as another option names, also
// through links: writing it would destroy an input. A --checkpoint is not an output, because a
// resumed run replaces its file on purpose.
void check_outputs(const std::string& command, const Options& options);

// Converts the options that have a key to {name: value} and back. read_json() throws nlohmann's
// exceptions for missing names and wrong types.
nlohmann::ordered_json to_json(const Options& options);
void read_json(const Options& options, const nlohmann::ordered_json& json);
// The options that have a key as text: "quantizer xnnpack, mode static, ...". A file is represented
// by its contents, not by its name.
std::string describe(const Options& options);
// " 8f0c...", the checksum of a file's contents; "" if it is not a file.
std::string checksum_of(const std::string& path);

}  // namespace octet
