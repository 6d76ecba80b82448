// Splits a program at its counts (rest.h has an example). If counts depend on each other, the body
// of the `rest` is split again.
#include "lowering/import/rest.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include <fmt/format.h>

#include "core/base/error.h"
#include "lowering/program/control.h"
#include "lowering/program/symbols.h"

namespace octet {
namespace {

using Kind = SizeExpr::Kind;

// Whether the size never decreases when its symbols (>= 0) increase.
bool grows(const SizeExpr& size) {
  struct Part {
    bool is_number;
    int64_t number;
  };
  std::vector<Part> stack;
  for (const SizeExpr::Step& step : size.steps()) {
    if (step.kind == Kind::kNumber || step.kind == Kind::kSymbol) {
      stack.push_back({step.kind == Kind::kNumber, step.number});
      continue;
    }
    const Part b = stack.back();
    stack.pop_back();
    const Part a = stack.back();
    stack.back() = {false, 0};
    const bool is_fine = step.kind == Kind::kMultiply
                             ? !(a.is_number && a.number < 0) && !(b.is_number && b.number < 0)
                         : step.kind == Kind::kFloorDivide ? b.is_number && b.number > 0
                                                           : step.kind != Kind::kModulo;
    if (!is_fine) return false;
  }
  return true;
}

void add_symbols(std::set<std::string>& names, const std::vector<SizeExpr>& sizes) {
  for (const SizeExpr& size : sizes) names.merge(size.symbols());
}

// One of the two programs, while it is built from parts of `from`.
struct Part {
  const Program& from;
  Program program = {};
  std::unordered_map<int, int> places = {};  // tensors of `from` -> tensors of this program

  int add(int index, ProgramTensor::Role role) {
    const auto [place, is_new] = places.emplace(index, static_cast<int>(program.tensors.size()));
    if (is_new) {
      program.tensors.push_back(from.tensor(index));
      program.tensors.back().role = role;
    }
    return place->second;
  }
  int add(int index) { return index < 0 ? -1 : add(index, from.tensor(index).role); }

  void add_op(const ProgramOp& op) {
    ProgramOp copy = op;
    for (std::vector<int>* indices : {&copy.inputs, &copy.outputs})
      for (int& index : *indices) index = add(index);
    program.ops.push_back(std::move(copy));
  }
};

class Split {
 public:
  Split(Program& program, const std::vector<CountedSize>& counted, size_t depth)
      : program_(program),
        counted_(counted),
        depth_(depth),
        is_behind_(program.tensors.size(), false) {
    for (const CountedSize& size : counted)
      if (!has_symbol(program, size.symbol.name)) names_.insert(size.symbol.name);
  }

  Program run() {
    sort_ops();
    for (int index : program_.results())
      if (is_behind(index) && std::find(results_.begin(), results_.end(), index) == results_.end())
        results_.push_back(index);
    make_body();
    make_front();
    return std::move(front_.program);
  }

 private:
  bool is_behind(int index) const { return index >= 0 && is_behind_[static_cast<size_t>(index)]; }

  bool has_counted_size(const ProgramOp& op) const {
    std::set<std::string> names;
    for (const auto& [key, sizes] : op.sizes) add_symbols(names, sizes);
    for (int index : op.outputs) add_symbols(names, program_.tensor(index).sizes);
    return std::any_of(names.begin(), names.end(),
                       [&](const std::string& name) { return names_.contains(name); });
  }

  void sort_ops() {
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      const ProgramOp& op = program_.ops[i];
      const bool reads_behind = std::any_of(op.inputs.begin(), op.inputs.end(),
                                            [&](int index) { return is_behind(index); });
      const bool is_cut = op.kind == kFirstRows && !reads_behind;
      if (!is_cut && !reads_behind && !has_counted_size(op)) {
        before_.push_back(i);
        continue;
      }
      (is_cut ? cuts_ : behind_).push_back(i);
      for (int index : op.outputs) is_behind_[static_cast<size_t>(index)] = true;
    }
    sink();
  }

  // Moves ops that read only constants (weights that are dequantized), and dequantize ops, into the
  // body if nothing before the cut reads their results. There they are fused with their readers.
  void sink() {
    std::set<int> wanted;
    for (size_t i : cuts_)
      wanted.insert(program_.ops[i].inputs.begin(), program_.ops[i].inputs.end());
    for (int index : program_.results()) wanted.insert(index);
    std::vector<size_t> kept;
    for (size_t i : std::vector<size_t>(before_.rbegin(), before_.rend())) {
      const ProgramOp& op = program_.ops[i];
      const bool is_wanted = std::any_of(op.outputs.begin(), op.outputs.end(),
                                         [&](int index) { return wanted.contains(index); });
      const bool can_move =
          op.is("dequantize") || std::all_of(op.inputs.begin(), op.inputs.end(), [&](int index) {
            return index < 0 || program_.tensor(index).is_constant();
          });
      if (!is_wanted && can_move) {
        behind_.push_back(i);
        for (int index : op.outputs) is_behind_[static_cast<size_t>(index)] = true;
        continue;
      }
      kept.push_back(i);
      wanted.insert(op.inputs.begin(), op.inputs.end());
    }
    before_.assign(kept.rbegin(), kept.rend());
    std::sort(behind_.begin(), behind_.end());
  }

  void make_body() {
    Program& body = body_.program;
    for (size_t i : cuts_)
      body.inputs.push_back(body_.add(program_.ops[i].outputs[0], ProgramTensor::Role::kInput));
    for (size_t i : behind_) {
      for (int index : program_.ops[i].inputs)
        if (index >= 0 && !is_behind(index) && !program_.tensor(index).is_constant()) cross(index);
      body_.add_op(program_.ops[i]);
      move_bodies(body.ops.back());
    }
    for (int index : results_) {
      const int inner = body_.add(index);
      body.outputs.push_back(inner);
      ProgramTensor& tensor = body.tensor(inner);
      if (tensor.role == ProgramTensor::Role::kIntermediate)
        tensor.role = ProgramTensor::Role::kOutput;
    }
    declare_symbols();
  }

  // Makes a value of the program an input of the body.
  void cross(int index) {
    if (body_.places.contains(index)) return;
    body_.program.inputs.push_back(body_.add(index, ProgramTensor::Role::kInput));
    crossing_.push_back(index);
  }

  void move_bodies(ProgramOp& op) {
    if (!is_control(op)) return;
    std::vector<int64_t> moved;
    for (int64_t index : bodies_of(op)) {
      moved.push_back(static_cast<int64_t>(body_.program.bodies.size()));
      body_.program.bodies.push_back(std::move(program_.bodies[static_cast<size_t>(index)]));
    }
    op.attributes[attr::kBodies] = std::move(moved);
  }

  // Declares the symbols in the body's formulas. Each tensor that decides one becomes an input of
  // the body, even if no op reads it.
  void declare_symbols() {
    Program& body = body_.program;
    std::set<std::string> used;
    for (const ProgramTensor& tensor : body.tensors) add_symbols(used, tensor.sizes);
    for (const ProgramOp& op : body.ops)
      for (const auto& [key, sizes] : op.sizes) add_symbols(used, sizes);
    for (const CountedSize& size : counted_) used.merge(size.greatest.symbols());
    for (const ShapeSymbol& symbol : program_.symbols)
      if (used.contains(symbol.name)) body.symbols.push_back(symbol);
    std::set<std::string> cut;
    for (size_t i : cuts_) add_symbols(cut, program_.tensor(program_.ops[i].outputs[0]).sizes);
    for (const CountedSize& size : counted_)
      if (names_.contains(size.symbol.name) && cut.contains(size.symbol.name))
        body.symbols.push_back(size.symbol);
    for (int index : program_.inputs) {
      if (index < 0) continue;
      std::set<std::string> given;
      add_symbols(given, program_.tensor(index).sizes);
      const std::set<std::string> undecided = undecided_symbols(body);
      if (std::any_of(undecided.begin(), undecided.end(),
                      [&](const std::string& name) { return given.contains(name); }))
        cross(index);
    }
  }

  void make_front() {
    Program& front = front_.program;
    for (int index : program_.inputs) front.inputs.push_back(front_.add(index));
    for (const ProgramState& state : program_.states) front_.add(state.value);
    front.symbols = program_.symbols;
    front.bodies = std::move(program_.bodies);
    for (size_t i : before_) front_.add_op(program_.ops[i]);
    if (!results_.empty()) add_rest();
    for (int index : program_.outputs) front.outputs.push_back(front_.add(index));
    for (ProgramState state : program_.states) {
      for (int* index : {&state.value, &state.next, &state.start}) *index = front_.add(*index);
      front.states.push_back(state);
    }
    drop_unused_bodies(front);
  }

  void add_rest() {
    if (depth_ == kDeepestBodies)
      throw Error("lower", program_.ops[cuts_[0]].name,
                  fmt::format("is a size that only a run decides and that depends on {} others, "
                              "want fewer; export with fixed ones",
                              depth_));
    Program& front = front_.program;
    ProgramOp op;
    op.kind = "rest";
    op.name = unique_name();
    for (size_t input : {1, 0})  // counts, then rows
      for (size_t i : cuts_) op.inputs.push_back(front_.add(program_.ops[i].inputs[input]));
    for (int index : crossing_) op.inputs.push_back(front_.add(index));
    for (size_t i : cuts_)
      op.sources.insert(op.sources.end(), program_.ops[i].sources.begin(),
                        program_.ops[i].sources.end());
    for (int index : results_) {
      op.outputs.push_back(front_.add(index));
      bound(front.tensor(op.outputs.back()));
    }
    op.attributes[attr::kCounts] = static_cast<int64_t>(cuts_.size());
    op.attributes[attr::kBodies] = std::vector<int64_t>{static_cast<int64_t>(front.bodies.size())};
    front.bodies.push_back(split_at_counts(std::move(body_.program), counted_, depth_ + 1));
    front.ops.push_back(std::move(op));
  }

  // Gives an output its greatest size, for which its memory is allocated.
  void bound(ProgramTensor& tensor) const {
    if (tensor.role == ProgramTensor::Role::kInput) tensor.role = ProgramTensor::Role::kOutput;
    std::map<std::string, SizeExpr> greatest;
    for (const CountedSize& size : counted_)
      if (names_.contains(size.symbol.name))
        greatest.emplace(size.symbol.name, size.greatest.with(greatest));
    for (SizeExpr& size : tensor.sizes) {
      const SizeExpr limit = size.with(greatest);
      if (!(limit == size) && !grows(size))
        throw Error("lower", tensor.name,
                    fmt::format("is an output of the size {}, of which the maximum is not known; "
                                "return what it is computed from",
                                size.to_text()));
      size = limit;
    }
    if (!is_symbolic(tensor.sizes)) tensor.sizes.clear();
  }

  std::string unique_name() const {
    std::string name = "rest";
    const auto is_taken = [&](const ProgramOp& op) { return op.name == name; };
    for (int suffix = 1; std::any_of(program_.ops.begin(), program_.ops.end(), is_taken); ++suffix)
      name = fmt::format("rest_{}", suffix);
    return name;
  }

  Program& program_;
  const std::vector<CountedSize>& counted_;
  const size_t depth_;
  std::set<std::string> names_;                 // counted symbols that the program lacks
  std::vector<bool> is_behind_;                 // by tensor
  std::vector<size_t> before_, cuts_, behind_;  // positions in Program::ops
  std::vector<int> results_, crossing_;
  Part front_{program_}, body_{program_};
};

}  // namespace

Program split_at_counts(Program program, const std::vector<CountedSize>& counted, size_t depth) {
  const bool counts = std::any_of(program.ops.begin(), program.ops.end(),
                                  [](const ProgramOp& op) { return op.kind == kFirstRows; });
  return counts ? Split(program, counted, depth).run() : std::move(program);
}

}  // namespace octet
