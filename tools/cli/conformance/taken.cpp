#include "tools/cli/conformance/taken.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "annotate/graph/control_flow.h"

namespace octet::conformance {
namespace {

bool is_static_integer(const SpecVariant& spec) {
  if (const auto* own = std::get_if<QuantizationSpec>(&spec))
    return !own->is_dynamic && own->dtype != DType::kFloat16 &&
           own->observer_or_fake_quant_ctr.name != "placeholder";
  return true;
}

bool is_activation(const Graph& graph, const Value& value) {
  return value.kind() == ValueKind::kTensor && graph.find_constant(&value) == nullptr &&
         (!value.meta || value.meta->dtype == DType::kFloat32);
}

// The values that `node` read before observers were inserted.
std::vector<const Value*> read_by(const Node& node) {
  std::vector<const Value*> values;
  for (const Value* value : node.inputs()) {
    while (value->producer() != nullptr && is_observer_node(value->producer()))
      value = value->producer()->inputs().at(0);
    values.push_back(value);
  }
  return values;
}

// Whether an annotated node gives the value and keeps it float, as the convolution in
// relu(conv2d(x, w)) does.
bool is_within_pattern(const Value& value, const Annotations& annotations) {
  const QuantizationAnnotation* maker =
      value.producer() == nullptr ? nullptr : annotations.find(value.producer());
  return maker != nullptr && maker->annotated && maker->find_output(&value) == nullptr;
}

void add_wanted(const Graph& graph, const Annotations& annotations,
                std::map<std::string, Wanted>& all) {
  for (const Node* node : graph.nodes()) {
    const QuantizationAnnotation* annotation = annotations.find(node);
    if (annotation == nullptr) continue;
    Wanted wanted;
    for (const Value* value : read_by(*node)) {
      if (!is_activation(graph, *value)) continue;
      const SpecVariant* spec = annotation->find_input(value);
      (spec != nullptr && is_static_integer(*spec) ? wanted.reads_integers
       : is_within_pattern(*value, annotations)    ? wanted.ends_pattern
                                                   : wanted.reads_floats) = true;
    }
    for (const Value* output : node->outputs())
      if (const SpecVariant* spec = annotation->find_output(output);
          spec != nullptr && is_static_integer(*spec))
        wanted.gives_integers = true;
    const bool has_specs = !annotation->input_qspec_map.empty() || annotation->has_output_spec();
    if (has_specs) all[node->name()] = wanted;
  }
}

bool is_integer(const ProgramTensor& tensor) { return tensor.qparams.has_value(); }

struct Found {
  bool reads_integers = false, reads_floats = false, gives_integers = false;
};

Found found_in(const Program& program, const ProgramOp& op, const OpContract& contract) {
  Found found;
  const size_t count = contract.integer_input_count(op.inputs.size());
  for (size_t i = 0; i < count; ++i) {
    if (!op.has_input(i) || program.input(op, i).is_constant()) continue;
    (is_integer(program.input(op, i)) ? found.reads_integers : found.reads_floats) = true;
  }
  found.gives_integers = is_integer(program.output(op));
  return found;
}

// ops: those that compute one annotated node.
std::string find_fault(const Program& program, const std::set<std::string>& refused,
                       const std::vector<const ProgramOp*>& ops, const Wanted& wanted) {
  // Specs of weights alone make a file smaller, whatever runs the op.
  if (!wanted.reads_integers && !wanted.gives_integers) return "";
  Found all;
  size_t count = 0;
  for (const ProgramOp* op : ops) {
    if (refused.contains(op->name))
      return "the backend refuses it: " + program.reasons.at(op->name);
    const OpContract* contract = find_contract(op->kind);
    if (contract == nullptr || contract->nature == Nature::kConversion) continue;
    const Found found = found_in(program, *op, *contract);
    all.reads_integers |= found.reads_integers;
    all.reads_floats |= found.reads_floats;
    all.gives_integers |= found.gives_integers;
    ++count;
  }
  if (count == 0) return "";
  if (wanted.gives_integers && !all.gives_integers) return "its result is float";
  // A float op may end a pattern: conv2d(x, w) + y, where nothing quantizes the sum.
  if (wanted.ends_pattern && !wanted.gives_integers) return "";
  if ((wanted.reads_integers || wanted.gives_integers) && !all.reads_integers)
    return "it runs in float";
  if (wanted.reads_integers && !wanted.reads_floats && count == 1 && all.reads_floats)
    return "one of its inputs is float";
  return "";
}

// The ops that no backend runs as they were: they run on the fallback, or in float.
std::set<std::string> refused_ops(const Program& program, const Supports& supports) {
  std::set<std::string> refused;
  for (const auto& [name, reason] : program.reasons) refused.insert(name);
  if (supports.size() == 1) return refused;
  // An op has a reason if the first backend refuses it.
  for (const Segment& segment : program.segments) {
    if (std::ranges::none_of(
            supports, [&](const auto& support) { return support->name() == segment.backend; }))
      continue;
    for (int index : segment.ops) {
      const ProgramOp& op = program.op(index);
      const OpContract* contract = find_contract(op.kind);
      if (contract != nullptr && (contract->nature == Nature::kConversion ||
                                  found_in(program, op, *contract).reads_integers))
        refused.erase(op.name);
    }
  }
  return refused;
}

// The op with `dtype` for each operand and result that may be an integer.
void make_integer(Program& program, const ProgramOp& op, const OpContract& contract, DType dtype) {
  const auto quantize = [&](int index) {
    ProgramTensor& tensor = program.tensor(index);
    if (tensor.dtype != DType::kFloat32) return;
    tensor.dtype = tensor.is_constant() ? DType::kInt8 : dtype;
    tensor.qparams =
        TensorQParams{{0.05F}, {dtype == DType::kUInt8 && !tensor.is_constant() ? 128 : 0}};
    tensor.stored.reset();
    if (tensor.is_constant()) tensor.data = Tensor::zeros(tensor.dtype, tensor.shape);
  };
  for (size_t i = 0; i < contract.integer_input_count(op.inputs.size()); ++i)
    if (op.has_input(i)) quantize(op.inputs[i]);
  quantize(op.outputs[0]);
}

bool is_float_compute(const Program& program, const ProgramOp& op, const OpContract* contract) {
  if (contract == nullptr || contract->nature != Nature::kCompute) return false;
  const size_t count = contract->integer_input_count(op.inputs.size());
  for (size_t i = 0; i < count; ++i)
    if (op.has_input(i) && program.input(op, i).dtype != DType::kFloat32) return false;
  return count > 0 && program.output(op).dtype == DType::kFloat32;
}

}  // namespace

std::map<std::string, Wanted> wanted_ops(const ObservedGraph& observed) {
  std::map<std::string, Wanted> wanted;
  add_wanted(observed.graph, observed.annotations, wanted);
  for (const Body& body : bodies_within(observed.graph))
    add_wanted(*body.graph, observed.annotations, wanted);
  return wanted;
}

std::string find_untaken(const Program& program, const Supports& supports,
                         const std::map<std::string, Wanted>& wanted) {
  const std::set<std::string> refused = refused_ops(program, supports);
  std::map<std::string, std::vector<const ProgramOp*>> ops;
  for (const ProgramOp& op : program.ops) {
    std::set<std::string> sources(op.sources.begin(), op.sources.end());
    sources.insert(op.name);
    for (const std::string& source : sources)
      if (wanted.contains(source)) ops[source].push_back(&op);
    const OpContract* contract = find_contract(op.kind);
    if (contract != nullptr && contract->nature == Nature::kConversion && refused.contains(op.name))
      return fmt::format("the backend refuses {} ({}): {}", op.name, op.kind,
                         program.reasons.at(op.name));
  }
  for (const auto& [name, of_node] : ops)
    if (const std::string fault = find_fault(program, refused, of_node, wanted.at(name));
        !fault.empty())
      return fmt::format("%{} has specs, but {}", name, fault);
  for (const Program& body : program.bodies)
    if (const std::string fault = find_untaken(body, supports, wanted); !fault.empty())
      return fault;
  return "";
}

std::vector<std::string> find_left_float(const Program& program, const Supports& supports) {
  std::set<std::string> kinds;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const ProgramOp& op = program.ops[i];
    const OpContract* contract = find_contract(op.kind);
    if (!is_float_compute(program, op, contract)) continue;
    for (DType dtype : {DType::kInt8, DType::kUInt8}) {
      Program integers = program;
      make_integer(integers, integers.ops[i], *contract, dtype);
      if (std::ranges::none_of(supports, [&](const auto& support) {
            return static_cast<bool>(support->accepts(integers, integers.ops[i]));
          }))
        continue;
      kinds.insert(op.is("unary") ? op.get(attr::kFn) : op.kind);
      break;
    }
  }
  for (const Program& body : program.bodies)
    for (std::string& kind : find_left_float(body, supports)) kinds.insert(std::move(kind));
  return {kinds.begin(), kinds.end()};
}

}  // namespace octet::conformance
