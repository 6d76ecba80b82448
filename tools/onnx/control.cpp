// Writes branches and loops. ONNX's bodies read values of the surrounding graph by name, so
// operands are not inputs of bodies.
#include "lowering/program/control.h"
#include "tools/onnx/steps.h"

namespace octet {
namespace {

const Program& body_of(const OnnxSteps& s, size_t position) {
  return s.program().bodies[static_cast<size_t>(bodies_of(s.source)[position])];
}

Names inputs_of(OnnxSteps& s, size_t first) {
  Names names;
  for (size_t i = first; i < s.source.inputs.size(); ++i) names.push_back(s.x(i));
  return names;
}

void give_all(OnnxSteps& s, const Names& results) {
  for (size_t i = 0; i < results.size(); ++i) s.give(i, results[i]);
}

void write_cond(OnnxSteps& s) {
  const Names operands = inputs_of(s, 1);
  const std::string decision = s.x(0);
  const auto branch = [&](size_t position) {
    return s.writer.body([&](OnnxGraph& graph) {
      const Program& body = body_of(s, position);
      const Names results = s.writer.write_body(body, operands);
      for (size_t k = 0; k < results.size(); ++k)
        s.writer.add_output(graph, body.tensor(body.outputs[k]), results[k]);
    });
  };
  const auto then = branch(0), otherwise = branch(1);
  give_all(s, s.ops("If", s.source.outputs.size(), {decision},
                    {{"then_branch", then}, {"else_branch", otherwise}}));
}

// An input of a body with the tensor's type; behind_first: with the type of one of its rows.
std::string add_input(OnnxSteps& s, OnnxGraph& graph, const ProgramTensor& tensor,
                      bool behind_first = false) {
  OnnxValue value = typed_value(s.writer.fresh_name(tensor.name + "_in"), tensor);
  if (behind_first) value.dims.erase(value.dims.begin());
  graph.inputs.push_back(value);
  return value.name;
}

// The condition as a bool without dimensions.
std::string condition_of(OnnxSteps& s, const Names& inputs) {
  const Program& condition = body_of(s, 0);
  const std::string flag = s.writer.write_body(condition, inputs)[0];
  const bool is_flat = condition.tensor(condition.outputs[0]).shape.empty();
  return is_flat ? flag : s.reshape(flag, {});
}

// Loop needs the condition before the first round, and then gets it from the body.
void write_while_loop(OnnxSteps& s) {
  const size_t carried = s.source.outputs.size();
  const Names outer = inputs_of(s, 0);
  const std::string first = condition_of(s, outer);
  ProgramTensor flag, round;
  flag.name = "goes_on";
  flag.dtype = DType::kBool;
  round.name = "round";
  round.dtype = DType::kInt64;
  const auto rounds = s.writer.body([&](OnnxGraph& graph) {
    add_input(s, graph, round);
    add_input(s, graph, flag);
    Names inner = outer;
    for (size_t k = 0; k < carried; ++k) inner[k] = add_input(s, graph, s.in(k));
    Names next = s.writer.write_body(body_of(s, 1), inner);
    next.insert(next.end(), outer.begin() + static_cast<std::ptrdiff_t>(carried), outer.end());
    s.writer.add_output(graph, flag, condition_of(s, next));
    for (size_t k = 0; k < carried; ++k) s.writer.add_output(graph, s.out(k), next[k]);
  });
  Names inputs = {"", first};
  inputs.insert(inputs.end(), outer.begin(), outer.begin() + static_cast<std::ptrdiff_t>(carried));
  give_all(s, s.ops("Loop", carried, std::move(inputs), {{"body", rounds}}));
}

void write_scan(OnnxSteps& s) {
  const auto carried = static_cast<size_t>(s.source.get(attr::kCarried)),
             rows = static_cast<size_t>(s.source.get(attr::kRows));
  if (rows == 0) return s.refuse("over no rows");
  const Program& program = body_of(s, 0);
  const Names outer = inputs_of(s, 0);
  const auto body = s.writer.body([&](OnnxGraph& graph) {
    Names inner = outer;
    for (size_t k = 0; k < carried + rows; ++k)
      inner[k] = add_input(s, graph, s.in(k), k >= carried);
    const Names results = s.writer.write_body(program, inner);
    for (size_t k = 0; k < results.size(); ++k)
      s.writer.add_output(graph, program.tensor(program.outputs[k]), results[k]);
  });
  const auto end = outer.begin() + static_cast<std::ptrdiff_t>(carried + rows);
  give_all(s, s.ops("Scan", s.source.outputs.size(), {outer.begin(), end},
                    {{"body", body}, {"num_scan_inputs", static_cast<int64_t>(rows)}}));
}

// ONNX's shapes are dynamic, so `rest` becomes inline code: rows are cut to the count, and the body
// follows.
void write_rest(OnnxSteps& s) {
  const auto counts = static_cast<size_t>(s.source.get(attr::kCounts));
  Names inputs = inputs_of(s, counts);
  for (size_t i = 0; i < counts; ++i)
    inputs[i] = s.slice(inputs[i], s.ints({0}), s.reshape(s.x(i), {1}), 0);
  give_all(s, s.writer.write_body(body_of(s, 0), inputs));
}

constexpr OnnxRow kControlRows[] = {
    {"cond", write_cond},
    {"while_loop", write_while_loop},
    {"scan", write_scan},
    {"rest", write_rest},
};

}  // namespace

std::span<const OnnxRow> control_onnx_rows() { return kControlRows; }

}  // namespace octet
