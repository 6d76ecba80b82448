// Decides symbols by the shapes of inputs. A dimension that is a plain symbol decides it; a formula
// of one symbol that nothing else decides is solved by bisection.
#include "lowering/program/symbols.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "lowering/program/control.h"

namespace octet {
namespace {

// The dimension of an input that decides a symbol.
struct SymbolSource {
  const ShapeSymbol* symbol;
  size_t input;  // position in Program::inputs
  size_t dim;
};

const ProgramTensor& input_tensor(const Program& program, size_t position) {
  return program.tensor(program.inputs[position]);
}

const ShapeSymbol* find_symbol(const Program& program, const std::string& name) {
  for (const ShapeSymbol& symbol : program.symbols)
    if (symbol.name == name) return &symbol;
  return nullptr;
}

bool is_plain(const SizeExpr& size) { return size.steps().size() == 1; }

// Sources in an order in which they can be evaluated, plain symbols first. Symbols that no input
// decides are missing.
std::vector<SymbolSource> find_sources(const Program& program) {
  std::vector<SymbolSource> sources;
  std::set<std::string> known;
  for (const bool wants_plain : {true, false})
    for (size_t i = 0; i < program.inputs.size(); ++i) {
      if (program.inputs[i] < 0) continue;
      const std::vector<SizeExpr>& sizes = input_tensor(program, i).sizes;
      for (size_t d = 0; d < sizes.size(); ++d) {
        const std::set<std::string> names = sizes[d].symbols();
        if (names.size() != 1 || known.contains(*names.begin()) ||
            is_plain(sizes[d]) != wants_plain)
          continue;
        if (const ShapeSymbol* symbol = find_symbol(program, *names.begin())) {
          sources.push_back({symbol, i, d});
          known.insert(symbol->name);
        }
      }
    }
  return sources;
}

// Overflow and negative sizes count as the greatest size.
int64_t size_at(const SizeExpr& size, const SymbolValues& values) {
  try {
    const int64_t value = size.evaluate(values);
    return value < 0 ? kLargestSize : value;
  } catch (const Error&) {
    return kLargestSize;
  }
}

std::string subject_of(const Program& program, size_t position) {
  return fmt::format("input {} ({})", position, input_tensor(program, position).name);
}

[[noreturn]] void refuse(const Program& program, const std::string& stage, const SymbolSource& at,
                         int64_t found, const std::string& wanted) {
  throw Error(stage, subject_of(program, at.input),
              fmt::format("dimension {} is {}, want {}; give an input of that size", at.dim, found,
                          wanted));
}

// Solves a formula that grows with its only symbol; nullopt if no value in range gives `found`.
std::optional<int64_t> solve(const SizeExpr& formula, const ShapeSymbol& symbol, int64_t found) {
  int64_t low = symbol.min, high = symbol.max;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    formula.evaluate({{symbol.name, middle}}) < found ? low = middle + 1 : high = middle;
  }
  return formula.evaluate({{symbol.name, low}}) == found ? std::optional(low) : std::nullopt;
}

int64_t value_of(const Program& program, const SymbolSource& source, int64_t found,
                 const std::string& stage) {
  const SizeExpr& formula = input_tensor(program, source.input).sizes[source.dim];
  if (is_plain(formula)) {
    if (found < source.symbol->min || found > source.symbol->max)
      refuse(program, stage, source, found,
             fmt::format("{} to {}", source.symbol->min, source.symbol->max));
    return found;
  }
  const std::optional<int64_t> value = solve(formula, *source.symbol, found);
  if (!value)
    refuse(program, stage, source, found,
           fmt::format("{} for a whole number {} from {} to {}", formula.to_text(),
                       source.symbol->name, source.symbol->min, source.symbol->max));
  return *value;
}

// Says where the size comes from: "like dimension 0 of input 0 (x)", or "2*s77, where dimension 0
// of input 0 (x) gives s77 = 4".
std::string origin_text(const Program& program, const SizeExpr& formula,
                        const std::vector<SymbolSource>& sources, const SymbolValues& values) {
  std::vector<std::string> texts;
  for (const SymbolSource& source : sources) {
    if (!formula.symbols().contains(source.symbol->name)) continue;
    const std::string origin =
        fmt::format("dimension {} of {}", source.dim, subject_of(program, source.input));
    if (formula == input_tensor(program, source.input).sizes[source.dim]) return "like " + origin;
    texts.push_back(fmt::format("{} gives {} = {}", origin, source.symbol->name,
                                values.at(source.symbol->name)));
  }
  return fmt::format("{}, where {}", formula.to_text(), fmt::join(texts, ", "));
}

}  // namespace

bool is_sane_shape(DType dtype, const std::vector<int64_t>& shape) {
  if (shape.size() > kHighestRank) return false;
  int64_t bytes = static_cast<int64_t>(size_of(dtype));
  return std::all_of(shape.begin(), shape.end(), [&](int64_t size) {
    return size >= 0 && size <= kLargestSize &&
           !__builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes) &&
           bytes <= kLargestTensor;
  });
}

SymbolValues hints_of(const Program& program) {
  SymbolValues values;
  for (const ShapeSymbol& symbol : program.symbols) values[symbol.name] = symbol.hint;
  return values;
}

SymbolValues bind_symbols(const Program& program, std::span<const int64_t* const> shapes,
                          const std::string& stage) {
  OCTET_ASSERT(shapes.size() == program.inputs.size(), "one shape an input");
  const std::vector<SymbolSource> sources = find_sources(program);
  SymbolValues values;
  for (const SymbolSource& source : sources)
    values[source.symbol->name] =
        value_of(program, source, shapes[source.input][source.dim], stage);
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (program.inputs[i] < 0) continue;
    const ProgramTensor& tensor = input_tensor(program, i);
    for (size_t d = 0; d < tensor.shape.size(); ++d) {
      const bool is_fixed = tensor.sizes.empty() || tensor.sizes[d].is_number();
      const int64_t wanted = is_fixed ? tensor.shape[d] : tensor.sizes[d].evaluate(values),
                    found = shapes[i][d];
      if (found == wanted) continue;
      refuse(program, stage, {nullptr, i, d}, found,
             is_fixed ? std::to_string(wanted)
                      : fmt::format("{}, {}", wanted,
                                    origin_text(program, tensor.sizes[d], sources, values)));
    }
  }
  return values;
}

std::set<std::string> undecided_symbols(const Program& program) {
  std::set<std::string> names;
  for (const ShapeSymbol& symbol : program.symbols) names.insert(symbol.name);
  for (const SymbolSource& source : find_sources(program)) names.erase(source.symbol->name);
  return names;
}

void verify_symbols(const Program& program) {
  std::set<std::string> names;
  for (const ShapeSymbol& symbol : program.symbols) {
    OCTET_ASSERT(!symbol.name.empty() && names.insert(symbol.name).second,
                 "a shape symbol without a unique name");
    OCTET_ASSERT(symbol.min >= 0 && symbol.min <= symbol.hint && symbol.hint <= symbol.max &&
                     symbol.max <= kLargestSize,
                 fmt::format("symbol {} has the hint {} and the range {} to {}", symbol.name,
                             symbol.hint, symbol.min, symbol.max));
  }
  const SymbolValues hints = hints_of(program);
  const auto check = [&](const std::string& subject, const std::vector<SizeExpr>& sizes,
                         const std::vector<int64_t>& wanted) {
    for (const SizeExpr& size : sizes)
      for (const std::string& name : size.symbols())
        OCTET_ASSERT(names.contains(name), subject + " has the unknown symbol " + name);
    std::vector<int64_t> got;
    try {
      got = evaluate(sizes, hints);
    } catch (const Error& error) {
      OCTET_ASSERT(false, subject + ": " + error.what());
    }
    OCTET_ASSERT(got == wanted, subject + " has formulas that give other sizes than it has");
  };
  for (const ProgramTensor& tensor : program.tensors) {
    if (tensor.sizes.empty()) continue;
    check(tensor.name, tensor.sizes, tensor.shape);
    OCTET_ASSERT(!tensor.is_constant(), tensor.name + " is a constant with formulas");
    OCTET_ASSERT(!tensor.qparams || tensor.qparams->is_per_tensor() ||
                     tensor.sizes[static_cast<size_t>(tensor.qparams->axis)].is_number(),
                 tensor.name + " has a scale for each slice along a dimension that is not fixed");
  }
  for (const ProgramOp& op : program.ops)
    for (const auto& [key, sizes] : op.sizes) {
      const auto attribute = op.attributes.find(key);
      OCTET_ASSERT(attribute != op.attributes.end(),
                   fmt::format("{} has formulas for {}, which it lacks", op.name, key));
      const int64_t* one = std::get_if<int64_t>(&attribute->second);
      const std::vector<int64_t>* many = std::get_if<std::vector<int64_t>>(&attribute->second);
      OCTET_ASSERT(one != nullptr || many != nullptr,
                   fmt::format("{} has formulas for {}, which is not a size", op.name, key));
      check(op.name, sizes, one != nullptr ? std::vector<int64_t>{*one} : *many);
    }
  if (program.symbols.empty()) return;
  const std::set<std::string> undecided = undecided_symbols(program);
  OCTET_ASSERT(
      undecided.empty(),
      fmt::format("the symbol{} {} {} not a size of an input", undecided.size() == 1 ? "" : "s",
                  fmt::join(undecided, ", "), undecided.size() == 1 ? "is" : "are"));
}

std::string symbols_text(const Program& program) {
  const std::vector<SymbolSource> sources = find_sources(program);
  std::string text;
  for (const ShapeSymbol& symbol : program.symbols) {
    const auto source = std::find_if(sources.begin(), sources.end(), [&](const SymbolSource& each) {
      return each.symbol == &symbol && is_plain(input_tensor(program, each.input).sizes[each.dim]);
    });
    const std::string origin = source == sources.end()
                                   ? ""
                                   : fmt::format(" (dimension {} of {})", source->dim,
                                                 input_tensor(program, source->input).name);
    text += fmt::format("symbol {}{} from {} to {}, lowered at {}\n", symbol.name, origin,
                        symbol.min, symbol.max, symbol.hint);
  }
  return text;
}

std::string shape_text(const ProgramTensor& tensor, const char* separator) {
  std::vector<std::string> texts;
  for (size_t d = 0; d < tensor.shape.size(); ++d)
    texts.push_back(tensor.sizes.empty() ? std::to_string(tensor.shape[d])
                                         : tensor.sizes[d].to_text());
  return fmt::format("{}", fmt::join(texts, separator));
}

// Widens the range of output k of a `rest`, whose sizes in the program are the greatest, by the
// ranges of the counts.
static void widen_by_counts(ShapeRange& range, const Program& program, const ProgramOp& rest,
                            size_t k) {
  const Program& body = program.bodies[static_cast<size_t>(bodies_of(rest).front())];
  const ShapeRange inner = shape_range(body, body.tensor(body.outputs[k]));
  for (size_t d = 0; d < inner.shape.size(); ++d)
    if (inner.shape[d] < 0) {
      range.shape[d] = -1;
      range.min[d] = std::min(range.min[d], inner.min[d]);
    }
}

ShapeRange shape_range(const Program& program, const ProgramTensor& tensor) {
  ShapeRange range{tensor.shape, tensor.shape, tensor.shape};
  SymbolValues low, high;
  for (const ShapeSymbol& symbol : program.symbols) {
    low[symbol.name] = symbol.min;
    high[symbol.name] = symbol.max;
  }
  for (size_t d = 0; d < tensor.sizes.size(); ++d) {
    if (tensor.sizes[d].is_number()) continue;
    const int64_t a = size_at(tensor.sizes[d], low), b = size_at(tensor.sizes[d], high);
    range.shape[d] = -1;
    range.min[d] = std::min(a, b);
    range.max[d] = std::max(a, b);
  }
  for (const ProgramOp& op : program.ops)
    for (size_t k = 0; op.is("rest") && k < op.outputs.size(); ++k)
      if (&program.tensor(op.outputs[k]) == &tensor) widen_by_counts(range, program, op, k);
  return range;
}

std::string to_text(const ShapeRange& range) {
  std::vector<std::string> sizes;
  for (size_t d = 0; d < range.shape.size(); ++d)
    sizes.push_back(range.shape[d] >= 0 ? std::to_string(range.shape[d])
                                        : fmt::format("{}..{}", range.min[d], range.max[d]));
  return fmt::format("{}", fmt::join(sizes, ", "));
}

}  // namespace octet
