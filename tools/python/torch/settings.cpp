#include "tools/python/torch/settings.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <type_traits>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "core/base/error.h"
#include "core/base/json_text.h"
#include "tools/cli/commands/requests.h"
#include "tools/cli/qat/qat.h"
#include "tools/cli/quantize/quantize.h"
#include "tools/cli/tune/tuner.h"
#include "tools/python/runtime/model.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace octet::python {
namespace {

template <typename Value>
const char* type_name() {
  if constexpr (std::is_same_v<Value, bool>) return "bool";
  if constexpr (std::is_integral_v<Value>) return "int";
  if constexpr (std::is_floating_point_v<Value>) return "float";
  if constexpr (std::is_same_v<Value, std::vector<std::string>>) return "list[str]";
  if constexpr (std::is_same_v<Value, std::vector<size_t>>) return "list[int]";
  return "str";
}

// Sets one field from a Python object.
struct FieldTaker {
  const Option& option;
  const nb::handle given;
  const char* stage;

  void operator()(const TextValue& value) const {
    std::string text;
    take_value(text);
    check_choice(text, value.names);
    value.set(text);
  }
  template <typename Value>
  void operator()(std::optional<Value>* field) const {
    (*this)(&field->emplace());
  }
  template <typename Value>
  void operator()(Value* field) const {
    take_value(*field);
    if constexpr (std::is_same_v<Value, std::vector<std::string>>) {
      for (const std::string& text : *field) check_choice(text, option.choices);
    } else if constexpr (std::is_same_v<Value, std::string>) {
      check_choice(*field, option.choices);
    } else if constexpr (std::is_same_v<Value, std::vector<size_t>>) {
      for (const size_t number : *field) check_bound(number);
    } else if constexpr (!std::is_same_v<Value, bool>) {
      check_bound(*field);
    }
  }

  template <typename Value>
  void take_value(Value& value) const {
    if constexpr (std::is_same_v<Value, std::string>) {
      std::filesystem::path path;
      if (option.kind != Option::Kind::kText && nb::try_cast(given, path)) {
        value = path.string();
        return;
      }
      if (has_choices()) {
        value = nb::cast<std::string>(nb::str(given));
        return;
      }
    }
    if constexpr (std::is_unsigned_v<Value> && !std::is_same_v<Value, bool>)
      if (int64_t number = 0; nb::isinstance<nb::int_>(given) && nb::try_cast(given, number))
        if (number < 0)
          throw Error(stage, option.name, fmt::format("is {}, want {}", number, bound_text(false)));
    if (!nb::try_cast(given, value))
      throw Error(stage, option.name,
                  fmt::format("got {}, want {}", nb::cast<std::string>(nb::repr(given)),
                              type_name<Value>()));
  }

  bool has_choices() const {
    return !option.choices.empty() || std::holds_alternative<TextValue>(option.field);
  }

  void check_choice(const std::string& text, const std::vector<std::string>& choices) const {
    if (choices.empty() || std::find(choices.begin(), choices.end(), text) != choices.end()) return;
    throw Error(stage, option.name,
                fmt::format("got \"{}\", want one of \"{}\"", text, fmt::join(choices, "\", \"")));
  }

  template <typename Number>
  void check_bound(Number number) const {
    using Bound = Option::Bound;
    constexpr bool kIsReal = std::is_floating_point_v<Number>;
    const double value = static_cast<double>(number);
    const bool fits = option.bound == Bound::kPositive      ? value > 0
                      : option.bound == Bound::kNotNegative ? value >= 0
                      : option.bound == Bound::kRange
                          ? value >= option.least && value <= option.most
                          : true;
    if (fits) return;
    throw Error(stage, option.name, fmt::format("is {}, want {}", number, bound_text(kIsReal)));
  }

  std::string bound_text(bool is_real) const {
    using Bound = Option::Bound;
    if (option.bound == Bound::kRange)
      return fmt::format("{:g} to {:g}", option.least, option.most);
    if (option.bound != Bound::kPositive) return "at least 0";
    return is_real ? "a number above 0" : "at least 1";
  }
};

// The type and the default in a signature.
struct FieldSignature {
  const Option& option;
  using Texts = std::pair<std::string, std::string>;

  static Texts text_of(const std::string& now, const std::vector<std::string>& choices) {
    const std::string type =
        choices.empty() ? "str" : fmt::format("Literal[\"{}\"]", fmt::join(choices, "\", \""));
    return now.empty() ? Texts{type + " | None", "None"} : Texts{type, fmt::format("\"{}\"", now)};
  }

  Texts operator()(const TextValue& value) const { return text_of(value.get(), value.names); }
  Texts operator()(const bool* field) const { return {"bool", *field ? "True" : "False"}; }
  Texts operator()(const std::string* field) const {
    switch (option.kind) {
      case Option::Kind::kText: return text_of(*field, option.choices);
      case Option::Kind::kFile: return {"Path | None", "None"};
      case Option::Kind::kSettings: return {"dict[str, Any] | Path | None", "None"};
      case Option::Kind::kFunction: return {"Callable[..., float] | str | None", "None"};
      case Option::Kind::kData:
        return option.is_required ? Texts("Data", "") : Texts("Data | None", "None");
      case Option::Kind::kLabels: return {"Labels | None", "None"};
    }
    return {};
  }
  template <typename Value>
  Texts operator()(const std::optional<Value>*) const {
    return {std::string(type_name<Value>()) + " | None", "None"};
  }
  template <typename Value>
  Texts operator()(const std::vector<Value>*) const {
    return {std::string(type_name<std::vector<Value>>()) + " | None", "None"};
  }
  template <typename Value>
  Texts operator()(const Value* field) const {
    const std::string text = fmt::format("{}", *field);
    const bool is_whole = std::is_floating_point_v<Value> && text.find('.') == std::string::npos;
    return {type_name<Value>(), is_whole ? text + ".0" : text};
  }
};

const char* name_of(Option::Kind kind) {
  switch (kind) {
    case Option::Kind::kText: return "text";
    case Option::Kind::kFile: return "file";
    case Option::Kind::kData: return "data";
    case Option::Kind::kLabels: return "labels";
    case Option::Kind::kSettings: return "settings";
    case Option::Kind::kFunction: return "function";
  }
  return "";
}

// "weight_bits: int | None = None"
std::string signature_of(const Option& option) {
  const auto [type, value] = std::visit(FieldSignature{option}, option.field);
  return fmt::format("{}: {}{}", option.name, type, option.is_required ? "" : " = " + value);
}

// Calls `action` with the options that a function of Python takes.
template <typename Action>
void with_options(const std::string& function, const Action& action) {
  const auto call = [&](auto record) { return action(options_of(record)); };
  if (function == "quantize") return call(QuantizeRequest());
  if (function == "prepare") return call(QuantizeFlow());
  if (function == "prepare_qat") return call(QuantizeFlow{.is_training = true});
  if (function == "qat") return call(QatRequest());
  if (function == "tune") return call(TuneOptions());
  if (function == "lower") return call(LowerRequest());
  if (function == "compare") return call(CompareRequest());
#ifdef OCTET_ONNX
  if (function == "export_onnx") return call(ExportRequest());
#else
  if (function == "export_onnx") return action(Options());
#endif
  throw Error("octet", function, "got a function that has no options of the command");
}

using Argument = std::tuple<std::string, std::string, std::string>;

std::vector<Argument> arguments(const std::string& function) {
  std::vector<Argument> rows;
  if (function == "lower")
    for (const std::string& row : session_arguments())
      rows.emplace_back(row.substr(0, row.find(':')), "session", row);
  with_options(function, [&](const Options& options) {
    for (const Option& option : options)
      if (!option.is_command && !option.is_positional && option.name != "quantizer")
        rows.emplace_back(option.name, name_of(option.kind), signature_of(option));
  });
  return rows;
}

}  // namespace

void take(const nb::dict& settings, const Options& options, const char* stage) {
  for (const Option& option : options) {
    if (option.is_command || !settings.contains(option.name.c_str())) continue;
    const nb::object given = settings[option.name.c_str()];
    if (!given.is_none()) std::visit(FieldTaker{option, given, stage}, option.field);
  }
}

std::vector<std::string> sources_of(const nb::dict& settings) {
  std::vector<std::string> sources;
  for (const auto& [name, value] : settings) {
    std::string text;
    std::error_code failure;
    if (nb::try_cast(value, text) && std::filesystem::is_regular_file(text, failure))
      sources.push_back(std::filesystem::absolute(text).string());
  }
  return sources;
}

std::string text_of(const nlohmann::ordered_json& json) {
  return dump_json(json, -1, true, nlohmann::ordered_json::error_handler_t::replace);
}

void bind_settings(nb::module_& module) {
  module.def("arguments", arguments, "function"_a,
             "(name, kind, signature) of each option that a function takes.");
  module.def(
      "check_settings",
      [](const std::string& function, const nb::dict& settings, const std::string& stage) {
        with_options(function,
                     [&](const Options& options) { take(settings, options, stage.c_str()); });
      },
      "function"_a, "settings"_a, "stage"_a);
}

}  // namespace octet::python
