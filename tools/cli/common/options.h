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
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

namespace CLI {
class App;
}

namespace octet {

// A field of an enum type, read and set by the names of its values.
struct NamedValue {
  std::vector<std::string> names;
  std::function<std::optional<size_t>()> get;  // position in names; nullopt: no name
  std::function<void(size_t)> set;
};

template <typename Enum>
NamedValue named(Enum& field, std::vector<std::pair<const char*, Enum>> values) {
  NamedValue named;
  for (const auto& [name, value] : values) named.names.emplace_back(name);
  named.get = [&field, values]() -> std::optional<size_t> {
    for (size_t i = 0; i < values.size(); ++i)
      if (values[i].second == field) return i;
    return std::nullopt;
  };
  named.set = [&field, values](size_t index) { field = values.at(index).second; };
  return named;
}

struct Option {
  // Points into the record, which must outlive the option.
  using Field =
      std::variant<std::string*, bool*, int*, int64_t*, size_t*, double*, std::optional<int64_t>*,
                   std::optional<size_t>*, std::optional<double>*, std::vector<std::string>*,
                   std::vector<size_t>*, NamedValue>;
  // What a string means. For files, Python also takes a path; for the last three it also takes the
  // batches, labels or settings themselves.
  enum class Kind { kText, kFile, kData, kLabels, kSettings };
  enum class Bound { kNone, kPositive, kNotNegative, kRange };

  std::string name;  // "weight_bits", as in Python and in checkpoints; --weight-bits
  Field field;
  std::string help;
  std::vector<std::string> choices = {};
  Kind kind = Kind::kText;
  Bound bound = Bound::kNone;
  double least = 0, most = 0;  // for kRange
  bool is_required = false, is_positional = false;
  bool reads_stdin = false, writes_stdout = false;  // for "-"
  bool is_key = true;                       // whether a checkpoint fits only runs with this value
  bool is_command = false;                  // not an argument in Python
  std::string excluded = {};                // the option that cannot be combined with it
  std::vector<std::string> endings = {};    // allowed suffixes of the file's name
  std::function<void(CLI::App&)> add = {};  // replaces all of the above: see other_options()

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
  Option from_stdin() && { return reads_stdin = true, take(); }
  Option to_stdout() && { return writes_stdout = true, take(); }
  Option without_key() && { return is_key = false, take(); }
  Option for_command() && { return is_command = true, is_key = false, take(); }
  Option excludes(std::string other) && { return excluded = std::move(other), take(); }
  Option ends_in(std::vector<std::string> all) && { return endings = std::move(all), take(); }

 private:
  Option take() { return std::move(*this); }
};

using Options = std::vector<Option>;

// An option that stands for several: `add` adds them to the command line at this place.
Option other_options(std::function<void(CLI::App&)> add);
// --print-after NAME: core/passes/pass.h.
void add_print_after_option(CLI::App& command);
Options joined(std::initializer_list<Options> parts);

// Adds the options in order. --help shows the defaults of numbers and of texts with choices.
void add_options(CLI::App& command, const Options& options);

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
