// Implements attribute access, the text form and the consistency check of a Program.
#include "lowering/program/program.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "lowering/program/control.h"
#include "lowering/program/filter_order.h"
#include "lowering/program/stored_constant.h"
#include "lowering/program/symbols.h"

namespace octet {

// ---- attributes ----

template <typename T>
const T* ProgramOp::find_value(std::string_view key) const {
  const auto found = attributes.find(key);
  if (found == attributes.end()) return nullptr;
  const T* value = std::get_if<T>(&found->second);
  if (value == nullptr)
    throw Error("artifact", name,
                fmt::format("attribute \"{}\" of {} has another type than the op wants; the file "
                            "is damaged, lower the model again",
                            key, kind));
  return value;
}
namespace {

// The default of a text attribute, which lives as long as the process.
const std::string& default_text(std::string_view text) {
  static const std::map<std::string_view, std::string> texts = [] {
    std::map<std::string_view, std::string> all;
    for (const OpContract& contract : op_contracts())
      for (const AttributeSpec& spec : contract.attributes)
        if (spec.type == AttributeType::kText) all.emplace(spec.text, spec.text);
    return all;
  }();
  return texts.at(text);
}

// The spec of the attribute in this kind; if the kind lacks it, that of the first kind that has it.
const AttributeSpec* find_spec(const std::string& kind, const AttributeSpec& key) {
  const OpContract* contract = find_contract(kind);
  const AttributeSpec* spec = contract == nullptr ? nullptr : contract->find_attribute(key.name);
  for (const OpContract& other : op_contracts()) {
    if (spec != nullptr) break;
    spec = other.find_attribute(key.name);
    if (spec != nullptr && spec->type != key.type) spec = nullptr;
  }
  return spec;
}

}  // namespace

template <typename T>
AttributeValue<T> ProgramOp::get(const AttributeKey<T>& key) const {
  if constexpr (std::is_same_v<T, double>)
    if (const auto found = attributes.find(key.name); found != attributes.end())
      if (const int64_t* whole = std::get_if<int64_t>(&found->second))
        return static_cast<double>(*whole);
  if (const T* value = find_value<T>(key.name)) return *value;
  const AttributeSpec* spec = find_spec(kind, key);
  if constexpr (std::is_scalar_v<T>) {
    return spec == nullptr ? T() : static_cast<T>(spec->number);
  } else if constexpr (std::is_same_v<T, std::string>) {
    return default_text(spec == nullptr ? "" : spec->text);
  } else {
    static const T none;
    return none;
  }
}
template bool ProgramOp::get(const AttributeKey<bool>&) const;
template int64_t ProgramOp::get(const AttributeKey<int64_t>&) const;
template double ProgramOp::get(const AttributeKey<double>&) const;
template const std::string& ProgramOp::get(const AttributeKey<std::string>&) const;
template const std::vector<int64_t>& ProgramOp::get(
    const AttributeKey<std::vector<int64_t>>&) const;
template const std::vector<double>& ProgramOp::get(const AttributeKey<std::vector<double>>&) const;

// ---- inputs and results ----

std::vector<int> Program::given() const {
  std::vector<int> indices = inputs;
  for (const ProgramState& state : states) indices.push_back(state.value);
  return indices;
}

std::vector<int> Program::results() const {
  std::vector<int> indices = outputs;
  for (const ProgramState& state : states) indices.push_back(state.next);
  return indices;
}

// ---- text ----

namespace {

std::string tensor_text(const ProgramTensor& tensor) {
  std::string text =
      fmt::format("{} {}[{}]", tensor.name, short_name_of(tensor.dtype), shape_text(tensor));
  if (tensor.qparams && !tensor.qparams->is_per_tensor()) text += " per-channel";
  if (tensor.stored) text += fmt::format(" stored as {}", describe(*tensor.stored));
  return text;
}

std::string attribute_text(const Attribute& attribute) {
  return std::visit(
      [](const auto& value) -> std::string {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::vector<int64_t>> ||
                      std::is_same_v<T, std::vector<double>>) {
          return fmt::format("[{}]", fmt::join(value, ","));
        } else {
          return fmt::format("{}", value);
        }
      },
      attribute);
}

std::string formulas_text(const Attribute& attribute, const std::vector<SizeExpr>& formulas) {
  std::vector<std::string> texts;
  for (const SizeExpr& formula : formulas) texts.push_back(formula.to_text());
  const std::string joined = fmt::format("{}", fmt::join(texts, ","));
  return std::holds_alternative<int64_t>(attribute) ? joined : "[" + joined + "]";
}

std::string op_text(const Program& program, const ProgramOp& op) {
  std::vector<std::string> outputs;
  for (int index : op.outputs) {
    const ProgramTensor& tensor = program.tensors.at(static_cast<size_t>(index));
    outputs.push_back(
        fmt::format("{}: {}[{}]", tensor.name, short_name_of(tensor.dtype), shape_text(tensor)));
  }
  std::vector<std::string> inputs;
  for (int index : op.inputs)
    inputs.push_back(index < 0 ? "none"
                               : tensor_text(program.tensors.at(static_cast<size_t>(index))));
  std::string text =
      fmt::format("{} = {}({})", fmt::join(outputs, ", "), op.kind, fmt::join(inputs, ", "));
  for (const auto& [key, value] : op.attributes) {
    const auto formulas = op.sizes.find(key);
    text += fmt::format(" {}={}", key,
                        formulas == op.sizes.end() ? attribute_text(value)
                                                   : formulas_text(value, formulas->second));
  }
  return text;
}

std::string indented(const std::string& text) {
  std::string result;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) result += "  " + line + "\n";
  return result;
}

std::vector<std::string> names_of(const Program& program, const std::vector<int>& indices) {
  std::vector<std::string> names;
  for (int index : indices)
    names.push_back(index < 0 ? "none" : program.tensors.at(static_cast<size_t>(index)).name);
  return names;
}

}  // namespace

std::string to_text(const Program& program) {
  std::string text = symbols_text(program);
  for (int index : program.inputs)
    text += index < 0 ? "input none\n"
                      : fmt::format("input {}\n",
                                    tensor_text(program.tensors.at(static_cast<size_t>(index))));
  for (const ProgramState& state : program.states)
    text += fmt::format("state {} is {}, then {}; starts as {}\n", state.name,
                        tensor_text(program.tensor(state.value)), program.tensor(state.next).name,
                        state.start < 0 ? "zeros" : program.tensor(state.start).name);
  for (const ProgramTensor& tensor : program.tensors) {
    if (!tensor.qparams || !tensor.qparams->is_per_tensor()) continue;
    text += fmt::format("scale {} = {:.9g}, {}\n", tensor.name, tensor.qparams->scale.front(),
                        tensor.qparams->zero_point.front());
  }
  std::vector<const Segment*> owner(program.ops.size(), nullptr);
  for (const Segment& segment : program.segments)
    for (int index : segment.ops) owner[static_cast<size_t>(index)] = &segment;
  const auto line = [&](size_t index) {
    const Segment* segment = owner[index];
    const std::string where = segment == nullptr ? "" : fmt::format("{:<10}", segment->backend);
    text += fmt::format("{}{}\n", where, op_text(program, program.ops[index]));
  };
  for (const Segment& segment : program.segments)
    for (int index : segment.ops) line(static_cast<size_t>(index));
  for (size_t i = 0; i < program.ops.size(); ++i)
    if (owner[i] == nullptr) line(i);
  text += fmt::format("return {}\n", fmt::join(names_of(program, program.outputs), ", "));
  for (size_t i = 0; i < program.bodies.size(); ++i)
    text += fmt::format("body {}:\n{}", i, indented(to_text(program.bodies[i])));
  return text;
}

// ---- check ----

namespace {

void check_index(const Program& program, int index, const std::string& where) {
  OCTET_ASSERT(index >= 0 && static_cast<size_t>(index) < program.tensors.size(),
               fmt::format("{}: tensor index {} out of range", where, index));
}

void verify_stored(const ProgramTensor& tensor) {
  const StoredConstant& stored = *tensor.stored;
  OCTET_ASSERT(tensor.is_constant() && tensor.dtype == DType::kFloat32,
               tensor.name + " is stored, but no float constant");
  const std::string fault = find_fault(stored);
  OCTET_ASSERT(!tensor.data.defined(), tensor.name + " is stored and has data, too");
  OCTET_ASSERT(fault.empty() && stored.values.shape() == tensor.shape,
               fmt::format("{} is stored wrongly: {}", tensor.name, fault));
}

void verify_tensor(const ProgramTensor& tensor) {
  for (int64_t size : tensor.shape) OCTET_ASSERT(size >= 0, tensor.name + " has a negative size");
  if (tensor.is_constant() && !tensor.stored) {
    OCTET_ASSERT(
        tensor.data.defined() && (tensor.data.is_contiguous() || is_channels_last(tensor.data)),
        tensor.name + " is a constant without contiguous data");
    OCTET_ASSERT(tensor.data.dtype() == tensor.dtype && tensor.data.shape() == tensor.shape,
                 tensor.name + " differs from its data");
  }
  if (tensor.stored) verify_stored(tensor);
  if (!tensor.qparams) return;
  const TensorQParams& qparams = *tensor.qparams;
  OCTET_ASSERT(is_integer(tensor.dtype),
               tensor.name + " has quantization parameters but is not an integer tensor");
  OCTET_ASSERT(qparams.axis < static_cast<int>(tensor.shape.size()),
               tensor.name + " has its quantization axis out of range");
  const size_t count = qparams.is_per_tensor()
                           ? 1
                           : static_cast<size_t>(tensor.shape[static_cast<size_t>(qparams.axis)]);
  OCTET_ASSERT(count > 0, tensor.name + " has its quantization axis along an empty dimension");
  OCTET_ASSERT(qparams.scale.size() == count && qparams.zero_point.size() == count,
               fmt::format("{} has {} scales and {} zero points, want {}", tensor.name,
                           qparams.scale.size(), qparams.zero_point.size(), count));
  for (float scale : qparams.scale)
    OCTET_ASSERT(std::isfinite(scale) && scale > 0,
                 fmt::format("{} has scale {}, want a positive number", tensor.name, scale));
}

// Marks the tensors that are defined before the first op.
std::vector<bool> initially_defined(const Program& program) {
  std::vector<bool> defined(program.tensors.size(), false);
  for (int index : program.inputs) {
    if (index < 0) continue;
    check_index(program, index, "inputs");
    OCTET_ASSERT(!program.tensor(index).is_constant(),
                 program.tensor(index).name + " is an input and a constant");
    defined[static_cast<size_t>(index)] = true;
  }
  for (const ProgramState& state : program.states) {
    check_index(program, state.value, "state " + state.name);
    OCTET_ASSERT(program.tensor(state.value).role == ProgramTensor::Role::kState,
                 fmt::format("state {} is {}, which has another role", state.name,
                             program.tensor(state.value).name));
    OCTET_ASSERT(!defined[static_cast<size_t>(state.value)],
                 program.tensor(state.value).name + " is a state and something else");
    defined[static_cast<size_t>(state.value)] = true;
  }
  for (size_t i = 0; i < program.tensors.size(); ++i)
    if (program.tensors[i].is_constant()) defined[i] = true;
  return defined;
}

void verify_states(const Program& program, const std::vector<bool>& defined) {
  std::set<std::string> names;
  for (const ProgramState& state : program.states) {
    OCTET_ASSERT(!state.name.empty() && names.insert(state.name).second,
                 "a state without a unique name");
    const ProgramTensor& value = program.tensor(state.value);
    const auto check_alike = [&](int index) {
      check_index(program, index, "state " + state.name);
      const ProgramTensor& other = program.tensor(index);
      OCTET_ASSERT(defined[static_cast<size_t>(index)],
                   fmt::format("state {} takes {}, which is never made", state.name, other.name));
      OCTET_ASSERT(other.dtype == value.dtype && other.shape == value.shape && other.sizes.empty(),
                   fmt::format("state {} and {} differ in dtype or shape", state.name, other.name));
    };
    OCTET_ASSERT(value.sizes.empty(), "state " + state.name + " has open sizes");
    check_alike(state.next);
    if (state.start < 0) continue;
    check_alike(state.start);
    OCTET_ASSERT(program.tensor(state.start).is_constant(),
                 fmt::format("state {} starts as {}, which is not a constant", state.name,
                             program.tensor(state.start).name));
  }
}

void verify_op(const Program& program, const ProgramOp& op, std::vector<bool>& defined) {
  OCTET_ASSERT(!op.outputs.empty(), op.kind + " " + op.name + " has no output");
  const std::string fault = find_attribute_fault(op);
  OCTET_ASSERT(fault.empty(), fmt::format("{} has {}", op.name, fault));
  for (int index : op.inputs) {
    if (index < 0) continue;
    check_index(program, index, op.name);
    OCTET_ASSERT(defined[static_cast<size_t>(index)],
                 op.name + " reads " + program.tensor(index).name + " before it is made");
  }
  for (int index : op.outputs) {
    check_index(program, index, op.name);
    OCTET_ASSERT(!defined[static_cast<size_t>(index)],
                 program.tensor(index).name + " is made twice");
    defined[static_cast<size_t>(index)] = true;
  }
}

// Checks that each op reads constants, tensors made in its segment or inputs of the segment, and
// that tensors that others read are outputs of the segment.
void verify_flow(const Program& program) {
  std::vector<int> maker(program.tensors.size(), -1);
  for (size_t s = 0; s < program.segments.size(); ++s)
    for (int op : program.segments[s].ops)
      for (int index : program.op(op).outputs)
        maker[static_cast<size_t>(index)] = static_cast<int>(s);
  const auto check_given = [&](int index) {
    const int from = maker[static_cast<size_t>(index)];
    if (from < 0) return;
    const std::vector<int>& outputs = program.segments[static_cast<size_t>(from)].outputs;
    OCTET_ASSERT(std::find(outputs.begin(), outputs.end(), index) != outputs.end(),
                 program.tensor(index).name + " leaves its segment unlisted");
  };
  for (size_t s = 0; s < program.segments.size(); ++s) {
    const Segment& segment = program.segments[s];
    for (int index : segment.inputs) check_given(index);
    for (int index : segment.outputs)
      OCTET_ASSERT(maker[static_cast<size_t>(index)] == static_cast<int>(s),
                   "a segment lists an output that it does not make");
    for (int op : segment.ops)
      for (int index : program.op(op).inputs) {
        if (index < 0 || program.tensor(index).is_constant() ||
            maker[static_cast<size_t>(index)] == static_cast<int>(s))
          continue;
        OCTET_ASSERT(
            std::find(segment.inputs.begin(), segment.inputs.end(), index) != segment.inputs.end(),
            program.tensor(index).name + " enters a segment unlisted");
      }
  }
  for (int index : program.results()) check_given(index);
}

}  // namespace

void verify(const Program& program, size_t depth) {
  for (const ProgramTensor& tensor : program.tensors) verify_tensor(tensor);
  std::vector<bool> defined = initially_defined(program);
  if (program.segments.empty()) {
    for (const ProgramOp& op : program.ops) verify_op(program, op, defined);
  }
  std::vector<bool> placed(program.ops.size(), false);
  for (const Segment& segment : program.segments) {
    for (int index : segment.inputs) {
      check_index(program, index, "segment input");
      OCTET_ASSERT(!program.tensor(index).is_constant(),
                   "a segment lists the constant " + program.tensor(index).name + " as an input");
      OCTET_ASSERT(defined[static_cast<size_t>(index)],
                   "a segment reads " + program.tensor(index).name + " before it is made");
    }
    for (int index : segment.ops) {
      OCTET_ASSERT(index >= 0 && static_cast<size_t>(index) < program.ops.size(),
                   fmt::format("segment: op index {} out of range", index));
      OCTET_ASSERT(!placed[static_cast<size_t>(index)],
                   program.op(index).name + " is in two segments");
      placed[static_cast<size_t>(index)] = true;
      verify_op(program, program.op(index), defined);
    }
    for (int index : segment.outputs) {
      check_index(program, index, "segment output");
      OCTET_ASSERT(defined[static_cast<size_t>(index)],
                   "a segment gives " + program.tensor(index).name + ", which it does not make");
    }
  }
  if (!program.segments.empty())
    OCTET_ASSERT(std::find(placed.begin(), placed.end(), false) == placed.end(),
                 "an op is in no segment");
  for (int index : program.outputs) {
    check_index(program, index, "outputs");
    OCTET_ASSERT(defined[static_cast<size_t>(index)],
                 "output " + program.tensor(index).name + " is never made");
  }
  verify_states(program, defined);
  verify_flow(program);
  verify_symbols(program);
  verify_bodies(program, depth);
}

}  // namespace octet
