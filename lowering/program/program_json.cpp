// Writes and reads programs as JSON. Doubles are in the shortest form that reads back equal, so
// numbers are exact; infinities and NaN, which JSON lacks, are strings.
#include "lowering/program/program_json.h"

#include <cmath>
#include <cstdlib>
#include <limits>
#include <stdexcept>

#include <fmt/format.h>

#include "core/base/error.h"
#include "lowering/program/json.h"
#include "lowering/program/symbols.h"

namespace octet {
namespace {

// ---- symbols and formulas: a formula is a number, or a list in postfix order,
// ["s0", -1, "+", 2, "//"]. Files may be hostile: every number, word and count is checked.

using Kind = SizeExpr::Kind;

constexpr size_t kMostSymbols = 64;
constexpr size_t kLongestName = 64;
constexpr Kind kOperators[] = {Kind::kAdd,    Kind::kMultiply, Kind::kFloorDivide,
                               Kind::kModulo, Kind::kMinimum,  Kind::kMaximum};

// An integer; get<int64_t> alone would truncate fractions.
int64_t integer_from_json(const Json& json) {
  if (!json.is_number_integer() ||
      (json.is_number_unsigned() && json.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)))
    throw std::invalid_argument("got " + json.dump().substr(0, 40) + ", want an integer");
  return json.get<int64_t>();
}

SizeExpr::Step step_from_json(const Json& json) {
  if (!json.is_string()) return {Kind::kNumber, integer_from_json(json), ""};
  const std::string word = json.get<std::string>();
  for (Kind kind : kOperators)
    if (word == word_of(kind)) return {kind, 0, ""};
  return {Kind::kSymbol, 0, word};
}

SizeExpr size_from_json(const Json& json) {
  if (!json.is_array()) return SizeExpr(integer_from_json(json));
  if (json.size() > SizeExpr::kMostSteps)
    throw std::invalid_argument(fmt::format("a formula of {} steps", json.size()));
  std::vector<SizeExpr::Step> steps;
  for (const Json& item : json) steps.push_back(step_from_json(item));
  try {
    return SizeExpr::from_steps(std::move(steps));
  } catch (const Error& error) {
    throw std::invalid_argument(error.what());
  }
}

Json size_to_json(const SizeExpr& size) {
  if (size.is_number()) return size.number();
  Json list = Json::array();
  for (const SizeExpr::Step& step : size.steps()) {
    if (step.kind == Kind::kNumber) {
      list.push_back(step.number);
    } else {
      list.push_back(step.kind == Kind::kSymbol ? step.symbol : word_of(step.kind));
    }
  }
  return list;
}

Json symbols_to_json(const std::vector<ShapeSymbol>& symbols) {
  Json list = Json::array();
  for (const ShapeSymbol& symbol : symbols)
    list.push_back(
        {{"name", symbol.name}, {"min", symbol.min}, {"max", symbol.max}, {"hint", symbol.hint}});
  return list;
}

Json sizes_to_json(const std::vector<SizeExpr>& sizes) {
  Json list = Json::array();
  for (const SizeExpr& size : sizes) list.push_back(size_to_json(size));
  return list;
}

std::vector<ShapeSymbol> symbols_from_json(const Json& json) {
  if (!json.is_array() || json.size() > kMostSymbols)
    throw std::invalid_argument(fmt::format("symbols are not a list of at most {}", kMostSymbols));
  std::vector<ShapeSymbol> symbols;
  for (const Json& item : json) {
    symbols.push_back({item.at("name").get<std::string>(), integer_from_json(item.at("min")),
                       integer_from_json(item.at("max")), integer_from_json(item.at("hint"))});
    if (symbols.back().name.size() > kLongestName)
      throw std::invalid_argument("a symbol's name is longer than 64");
  }
  return symbols;
}

std::vector<SizeExpr> sizes_from_json(const Json& json) {
  if (!json.is_array() || json.size() > kHighestRank)
    throw std::invalid_argument("formulas of sizes are not a list, or too long a one");
  std::vector<SizeExpr> sizes;
  for (const Json& item : json) sizes.push_back(size_from_json(item));
  return sizes;
}

// ---- writing

Json real_to_json(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

// Uses the fewest digits that read back as the same float, half of what a double needs.
Json float_to_json(float value) {
  return std::isfinite(value) ? Json(std::strtod(fmt::format("{}", value).c_str(), nullptr))
                              : real_to_json(value);
}

// bool, int, string and int list are unchanged; {"real": x} and {"reals": [...]} distinguish
// doubles from ints.
Json attribute_to_json(const Attribute& attribute) {
  if (const double* real = std::get_if<double>(&attribute)) return {{"real", real_to_json(*real)}};
  if (const std::vector<double>* reals = std::get_if<std::vector<double>>(&attribute)) {
    Json list = Json::array();
    for (double real : *reals) list.push_back(real_to_json(real));
    return {{"reals", list}};
  }
  return std::visit([](const auto& value) -> Json { return value; }, attribute);
}

Json tensor_to_json(const ProgramTensor& tensor, SliceParameters place) {
  Json json = {{"name", tensor.name},
               {"dtype", std::string(name_of(tensor.dtype))},
               {"shape", tensor.shape},
               {"role", static_cast<int>(tensor.role)}};
  if (!tensor.sizes.empty()) json["sizes"] = sizes_to_json(tensor.sizes);
  if (tensor.qparams && !tensor.qparams->is_per_tensor() && place == SliceParameters::kElsewhere) {
    json["qparams"] = {{"axis", tensor.qparams->axis}};
  } else if (tensor.qparams) {
    Json scales = Json::array();
    for (float scale : tensor.qparams->scale) scales.push_back(float_to_json(scale));
    json["qparams"] = {{"scale", scales},
                       {"zero_point", tensor.qparams->zero_point},
                       {"axis", tensor.qparams->axis}};
  }
  return json;
}

Json op_to_json(const ProgramOp& op) {
  Json attributes = Json::object();
  for (const auto& [key, value] : op.attributes) attributes[key] = attribute_to_json(value);
  Json json = {{"kind", op.kind},       {"name", op.name},          {"inputs", op.inputs},
               {"outputs", op.outputs}, {"attributes", attributes}, {"sources", op.sources},
               {"module", op.module},   {"macs", op.macs}};
  for (const auto& [key, sizes] : op.sizes) json["sizes"][key] = sizes_to_json(sizes);
  return json;
}

Json segment_to_json(const Segment& segment) {
  return {{"backend", segment.backend},
          {"ops", segment.ops},
          {"inputs", segment.inputs},
          {"outputs", segment.outputs}};
}

Json state_to_json(const ProgramState& state) {
  return {
      {"name", state.name}, {"value", state.value}, {"next", state.next}, {"start", state.start}};
}

// ---- reading. Json's own exceptions (missing key, wrong type) are turned into one Error by
// program_from_json_text.

double real_from_json(const Json& json) {
  if (!json.is_string()) return json.get<double>();
  const std::string text = json.get<std::string>();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  throw std::invalid_argument("number \"" + text + "\"");
}

// A number in the range of float.
float float_from_json(const Json& json) {
  const double value = real_from_json(json);
  if (std::isfinite(value) && std::abs(value) > double{std::numeric_limits<float>::max()})
    throw std::invalid_argument(fmt::format("got {}, which is too large for a float", value));
  return static_cast<float>(value);
}

template <typename T>
std::vector<T> integers_from_json(const Json& json) {
  if (!json.is_array())
    throw std::invalid_argument("got " + json.dump().substr(0, 40) + ", want a list of integers");
  std::vector<T> values;
  for (const Json& item : json) {
    const int64_t value = integer_from_json(item);
    if (value < std::numeric_limits<T>::min() || value > std::numeric_limits<T>::max())
      throw std::invalid_argument(fmt::format("integer {} out of range", value));
    values.push_back(static_cast<T>(value));
  }
  return values;
}

Attribute attribute_from_json(const Json& json) {
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_integer()) return json.get<int64_t>();
  if (json.is_string()) return json.get<std::string>();
  if (json.is_array()) return integers_from_json<int64_t>(json);
  if (json.contains("real")) return real_from_json(json.at("real"));
  std::vector<double> reals;
  for (const Json& item : json.at("reals")) reals.push_back(real_from_json(item));
  return reals;
}

TensorQParams qparams_from_json(const Json& json) {
  TensorQParams qparams;
  const int64_t axis = integer_from_json(json.at("axis"));
  if (axis < -1 || axis > static_cast<int64_t>(kHighestRank))
    throw std::invalid_argument(fmt::format("axis {}", axis));
  qparams.axis = static_cast<int>(axis);
  if (!qparams.is_per_tensor() && !json.contains("scale")) return qparams;  // they are elsewhere
  for (const Json& item : json.at("scale")) qparams.scale.push_back(float_from_json(item));
  qparams.zero_point = integers_from_json<int32_t>(json.at("zero_point"));
  return qparams;
}

ProgramTensor tensor_from_json(const Json& json) {
  ProgramTensor tensor;
  tensor.name = json.at("name").get<std::string>();
  const std::string dtype = json.at("dtype").get<std::string>();
  const std::optional<DType> found = find_dtype(dtype);
  if (!found) throw std::invalid_argument("dtype \"" + dtype + "\"");
  tensor.dtype = *found;
  tensor.shape = integers_from_json<int64_t>(json.at("shape"));
  if (!is_sane_shape(tensor.dtype, tensor.shape))
    throw std::invalid_argument("shape of tensor " + tensor.name);
  if (json.contains("sizes")) tensor.sizes = sizes_from_json(json.at("sizes"));
  const int64_t role = integer_from_json(json.at("role"));
  if (role < 0 || role > static_cast<int>(ProgramTensor::Role::kState))
    throw std::invalid_argument("role of tensor " + tensor.name);
  tensor.role = static_cast<ProgramTensor::Role>(role);
  if (json.contains("qparams")) tensor.qparams = qparams_from_json(json.at("qparams"));
  if (const std::optional<int32_t> zero = find_misplaced_zero_point(tensor))
    throw std::invalid_argument(fmt::format("zero point {} of tensor {}", *zero, tensor.name));
  return tensor;
}

ProgramOp op_from_json(const Json& json) {
  ProgramOp op;
  op.kind = json.at("kind").get<std::string>();
  op.name = json.at("name").get<std::string>();
  op.inputs = integers_from_json<int>(json.at("inputs"));
  op.outputs = integers_from_json<int>(json.at("outputs"));
  for (const auto& [key, value] : json.at("attributes").items())
    op.attributes[key] = attribute_from_json(value);
  if (json.contains("sizes"))
    for (const auto& [key, value] : json.at("sizes").items())
      op.sizes[key] = sizes_from_json(value);
  op.sources = json.at("sources").get<std::vector<std::string>>();
  op.module = json.at("module").get<std::string>();
  op.macs = integer_from_json(json.at("macs"));
  return op;
}

Segment segment_from_json(const Json& json) {
  return {json.at("backend").get<std::string>(), integers_from_json<int>(json.at("ops")),
          integers_from_json<int>(json.at("inputs")), integers_from_json<int>(json.at("outputs"))};
}

ProgramState state_from_json(const Json& json) {
  const std::vector<int> indices =
      integers_from_json<int>(Json::array({json.at("value"), json.at("next"), json.at("start")}));
  return {json.at("name").get<std::string>(), indices[0], indices[1], indices[2]};
}

// kDeepestJson bounds how deep bodies are nested.
Program program_from_json(const Json& json) {
  Program program;
  program.backend = json.at("backend").get<std::string>();
  program.versions = json.at("versions").get<std::map<std::string, std::string>>();
  if (json.contains("symbols")) program.symbols = symbols_from_json(json.at("symbols"));
  for (const Json& item : json.at("tensors")) program.tensors.push_back(tensor_from_json(item));
  for (const Json& item : json.at("ops")) program.ops.push_back(op_from_json(item));
  for (const Json& item : json.at("segments")) program.segments.push_back(segment_from_json(item));
  program.inputs = integers_from_json<int>(json.at("inputs"));
  program.outputs = integers_from_json<int>(json.at("outputs"));
  if (json.contains("states"))
    for (const Json& item : json.at("states")) program.states.push_back(state_from_json(item));
  if (json.contains("bodies"))
    for (const Json& item : json.at("bodies")) program.bodies.push_back(program_from_json(item));
  program.reasons = json.at("reasons").get<std::map<std::string, std::string>>();
  return program;
}

}  // namespace

namespace {

Json program_to_json(const Program& program, SliceParameters place) {
  Json json = {{"backend", program.backend}, {"versions", program.versions},
               {"tensors", Json::array()},   {"ops", Json::array()},
               {"segments", Json::array()},  {"inputs", program.inputs},
               {"outputs", program.outputs}, {"reasons", program.reasons}};
  if (!program.symbols.empty()) json["symbols"] = symbols_to_json(program.symbols);
  for (const ProgramTensor& tensor : program.tensors)
    json["tensors"].push_back(tensor_to_json(tensor, place));
  for (const ProgramOp& op : program.ops) json["ops"].push_back(op_to_json(op));
  for (const Segment& segment : program.segments)
    json["segments"].push_back(segment_to_json(segment));
  for (const ProgramState& state : program.states) json["states"].push_back(state_to_json(state));
  for (const Program& body : program.bodies) json["bodies"].push_back(program_to_json(body, place));
  return json;
}

}  // namespace

std::string to_json_text(const Program& program, SliceParameters place) {
  return program_to_json(program, place).dump(-1, ' ', false, Json::error_handler_t::replace);
}

Program program_from_json_text(const std::string& text, const std::string& file) {
  try {
    if (nests_deeper(text, kDeepestJson))
      throw std::invalid_argument(fmt::format("nested deeper than {}", kDeepestJson));
    return program_from_json(Json::parse(text));
  } catch (const Json::exception& fault) {
    throw Error(
        "artifact", file,
        fmt::format("the program in it is malformed ({}); lower the model again", fault.what()));
  } catch (const std::invalid_argument& fault) {
    throw Error(
        "artifact", file,
        fmt::format("the program in it is malformed ({}); lower the model again", fault.what()));
  }
}

std::optional<int32_t> find_misplaced_zero_point(const ProgramTensor& tensor) {
  if (!tensor.qparams || !is_integer(tensor.dtype) || size_of(tensor.dtype) > 4)
    return std::nullopt;
  const IntegerRange range = integer_range(tensor.dtype);
  for (int32_t zero : tensor.qparams->zero_point)
    if (zero < range.min || zero > range.max) return zero;
  return std::nullopt;
}

bool nests_deeper(std::string_view json, size_t limit) {
  size_t depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if ((c == '[' || c == '{') && ++depth > limit) {
      return true;
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return false;
}

}  // namespace octet
