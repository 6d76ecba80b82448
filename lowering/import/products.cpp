// Imports products other than matmul and linear: einsum, outer products, sums of a product and a
// tensor; and linear algebra: systems of equations, inverses, determinants, factors.
#include <algorithm>
#include <cctype>
#include <map>
#include <string>

#include "lowering/import/steps.h"

namespace octet {
namespace {

int times(Steps& s, int x, double factor) {
  return factor == 1 ? x : s.mul(x, s.number(factor, x));
}

// beta * self + alpha * product
void give_sum(Steps& s, const Node& node, int product) {
  const double alpha = node.float_or("alpha", 1), beta = node.float_or("beta", 1);
  const int scaled = times(s, product, alpha);
  s.give(beta == 0 ? scaled : s.add(scaled, times(s, s.operand("self"), beta)));
}

void import_baddbmm(Steps& s, const Node& node) {
  give_sum(s, node, s.matmul(s.operand("batch1"), s.operand("batch2")));
}
void import_addbmm(Steps& s, const Node& node) {
  const int products = s.matmul(s.operand("batch1"), s.operand("batch2"));
  give_sum(s, node, s.reduce("sum", products, {0}, false));
}
void import_addmv(Steps& s, const Node& node) {
  const int matrix = s.operand("mat");
  const int product = s.matmul(matrix, s.unsqueeze(s.operand("vec"), 1));
  give_sum(s, node, s.reshape(product, {s.sizes(matrix)[0]}));
}
void import_addr(Steps& s, const Node& node) {
  give_sum(s, node, s.mul(s.unsqueeze(s.operand("vec1"), 1), s.unsqueeze(s.operand("vec2"), 0)));
}
void import_outer(Steps& s, const Node&) {
  s.give(s.mul(s.unsqueeze(s.operand("self"), 1), s.unsqueeze(s.operand({"vec2", "other"}), 0)));
}
void import_mv(Steps& s, const Node&) {
  const int matrix = s.operand("self");
  s.give(s.reshape(s.matmul(matrix, s.unsqueeze(s.operand("vec"), 1)), {s.sizes(matrix)[0]}));
}
void import_dot(Steps& s, const Node& node) {
  s.give(s.reduce("sum", s.mul(s.operand({"self", "x"}), s.operand({"tensor", "other", "y"})),
                  {node.int_or("dim", -1)}, false));
}

// ---- einsum

using Labels = std::vector<char>;

bool has(const Labels& labels, char label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

// A tensor with a label for each dimension.
struct Named {
  int tensor;
  Labels labels;
};

Named ordered(Steps& s, const Named& x, const Labels& wanted) {
  std::vector<int64_t> dims;
  for (char label : wanted)
    dims.push_back(std::find(x.labels.begin(), x.labels.end(), label) - x.labels.begin());
  return {s.permute(x.tensor, dims), wanted};
}

// Sums over the labels that are not in `kept`.
Named summed(Steps& s, const Named& x, const Labels& kept) {
  std::vector<int64_t> dims;
  Labels left;
  for (size_t d = 0; d < x.labels.size(); ++d) {
    if (has(kept, x.labels[d]))
      left.push_back(x.labels[d]);
    else
      dims.push_back(static_cast<int64_t>(d));
  }
  return dims.empty() ? x : Named{s.reduce("sum", x.tensor, dims, false), left};
}

Labels joined(std::initializer_list<Labels> lists) {
  Labels all;
  for (const Labels& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

// Emits one matrix product. Labels of both operands are batch dimensions if they are kept, and are
// summed over otherwise.
Named product_of(Steps& s, Named a, Named b, const Labels& kept) {
  Labels of_a = kept, of_b = kept;
  of_a.insert(of_a.end(), b.labels.begin(), b.labels.end());
  of_b.insert(of_b.end(), a.labels.begin(), a.labels.end());
  a = summed(s, a, of_a);
  b = summed(s, b, of_b);
  Labels batch, rows, columns, inner;
  for (char label : a.labels)
    (!has(b.labels, label) ? rows : has(kept, label) ? batch : inner).push_back(label);
  for (char label : b.labels)
    if (!has(a.labels, label)) columns.push_back(label);
  a = ordered(s, a, joined({batch, rows, inner}));
  b = ordered(s, b, joined({batch, inner, columns}));
  std::map<char, SizeExpr> size;
  for (const Named* side : {&a, &b})
    for (size_t d = 0; d < side->labels.size(); ++d) {
      SizeExpr& known = size.emplace(side->labels[d], 1).first->second;
      if (known == SizeExpr(1)) known = s.sizes(side->tensor)[d];
    }
  const auto sizes_of = [&](const Labels& labels) {
    Sizes sizes;
    for (char label : labels) sizes.push_back(size.at(label));
    return sizes;
  };
  const auto count = [&](const Labels& labels) {
    SizeExpr product = 1;
    for (char label : labels) product = product * size.at(label);
    return product;
  };
  // a batch dimension of size 1 is expanded to that of the other operand
  const auto widened = [&](const Named& x, const Labels& rest) {
    return s.expand(x.tensor, sizes_of(joined({batch, rest})));
  };
  const int left =
      s.reshape(widened(a, joined({rows, inner})), {count(batch), count(rows), count(inner)});
  const int right =
      s.reshape(widened(b, joined({inner, columns})), {count(batch), count(inner), count(columns)});
  const Labels labels = joined({batch, rows, columns});
  return {s.reshape(s.matmul(left, right), sizes_of(labels)), labels};
}

// "...ij" as labels; dimensions of the ellipsis have digits, counted from the last one.
Labels labels_of(const std::string& term, size_t rank) {
  Labels labels;
  const auto letters = static_cast<size_t>(
      std::count_if(term.begin(), term.end(), [](unsigned char c) { return std::isalpha(c); }));
  for (size_t i = 0; i < term.size(); ++i) {
    if (std::isalpha(static_cast<unsigned char>(term[i]))) labels.push_back(term[i]);
    if (term.compare(i, 3, "...") == 0)
      for (size_t d = rank - letters; d-- > 0;) labels.push_back(static_cast<char>('0' + d));
  }
  return labels;
}

bool repeats_a_label(const Labels& labels) {
  Labels sorted = labels;
  std::sort(sorted.begin(), sorted.end());
  return std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
}

std::vector<std::string> terms_of(const std::string& list) {
  std::vector<std::string> terms(1);
  for (char c : list)
    c == ',' ? static_cast<void>(terms.emplace_back()) : terms.back().push_back(c);
  return terms;
}

// Without "->": the labels of the ellipsis, then those that occur once, in alphabetical order.
Labels implied_output(const std::vector<Named>& operands) {
  std::map<char, int> counts;
  for (const Named& operand : operands)
    for (char label : operand.labels) ++counts[label];
  Labels output;
  for (const auto& [label, count] : counts)
    if (std::isdigit(static_cast<unsigned char>(label))) output.insert(output.begin(), label);
  for (const auto& [label, count] : counts)
    if (count == 1 && std::isalpha(static_cast<unsigned char>(label))) output.push_back(label);
  return output;
}

void import_einsum(Steps& s, const Node& node) {
  const Argument* given = node.find_argument("equation");
  std::string equation = given == nullptr ? "" : *given->find<std::string>();
  std::erase(equation, ' ');
  const size_t arrow = equation.find("->");
  const std::vector<std::string> terms = terms_of(equation.substr(0, arrow));
  std::vector<Named> operands;
  if (const Argument* list = node.find_argument("tensors"))
    for_each_value(*list, [&](Value* value) {
      const int tensor = s.tensor_of(value);
      const std::string term = operands.size() < terms.size() ? terms[operands.size()] : "";
      operands.push_back({tensor, labels_of(term, s.rank(tensor))});
    });
  if (operands.empty()) return s.refuse("without operands");
  size_t widest = 0;
  for (const Named& operand : operands) {
    if (repeats_a_label(operand.labels))
      return s.refuse("of a diagonal (a label twice in one operand)");
    widest = std::max<size_t>(widest, static_cast<size_t>(std::count_if(
                                          operand.labels.begin(), operand.labels.end(),
                                          [](unsigned char c) { return std::isdigit(c); })));
  }
  Labels output = implied_output(operands);
  if (arrow != std::string::npos) {
    const std::string wanted = equation.substr(arrow + 2);
    const auto letters = static_cast<size_t>(std::count_if(
        wanted.begin(), wanted.end(), [](unsigned char c) { return std::isalpha(c); }));
    output = labels_of(wanted, letters + widest);
  }
  Named result = operands[0];
  for (size_t i = 1; i < operands.size(); ++i) {
    Labels kept = output;
    for (size_t j = i + 1; j < operands.size(); ++j)
      kept.insert(kept.end(), operands[j].labels.begin(), operands[j].labels.end());
    result = product_of(s, result, operands[i], kept);
  }
  s.give(ordered(s, summed(s, result, output), output).tensor);
}

// Contracts dims_self with dims_other; the other dimensions are rows and columns.
void import_tensordot(Steps& s, const Node& node) {
  Named a{s.operand("self"), {}}, b{s.operand("other"), {}};
  for (size_t d = 0; d < s.rank(a.tensor); ++d) a.labels.push_back(static_cast<char>('A' + d));
  for (size_t d = 0; d < s.rank(b.tensor); ++d) b.labels.push_back(static_cast<char>('a' + d));
  const std::vector<int64_t> of_a = node.ints_or("dims_self", {}),
                             of_b = node.ints_or("dims_other", {});
  Labels kept = joined({a.labels, b.labels});
  for (size_t i = 0; i < of_a.size(); ++i) {
    char& label = b.labels[s.dim_of(b.tensor, of_b[i])];
    std::erase(kept, label);
    label = a.labels[s.dim_of(a.tensor, of_a[i])];
    std::erase(kept, label);
  }
  s.give(ordered(s, product_of(s, a, b, kept), kept).tensor);
}

// a[1, 2, 0] * b[2, 0, 1] - a[2, 0, 1] * b[1, 2, 0] along a dimension of three
void import_cross(Steps& s, const Node& node) {
  const int a = s.operand("self"), b = s.operand("other");
  const int64_t dim = node.int_or("dim", -1);
  const std::vector<int64_t> next = {1, 2, 0}, before = {2, 0, 1};
  s.give(s.sub(s.mul(s.take(a, dim, next), s.take(b, dim, before)),
               s.mul(s.take(a, dim, before), s.take(b, dim, next))));
}

// ---- linear algebra

// The sizes before the last two.
Sizes batch_of(Steps& s, int x) {
  const Sizes sizes = s.sizes(x);
  return Sizes(sizes.begin(), sizes.end() - 2);
}

int linalg(Steps& s, const char* function, std::vector<int> inputs, const Sizes& sizes) {
  const DType dtype = s.dtype(inputs[0]);
  return s.op("linalg", std::move(inputs), sizes, dtype, {{attr::kFn, std::string(function)}});
}

// Gives the first result. The others must be unused, except the error code at the end of an op
// named _ex, which is 0: an error stops the run.
void give_first(Steps& s, const Node& node, int x) {
  s.give(x);
  const std::vector<Value*> results = node.outputs();
  for (size_t i = 1; i < results.size(); ++i) {
    if (results[i]->is_unused()) continue;
    if (i + 1 < results.size() || node.target().find("_ex") == std::string::npos)
      return s.refuse("whose factors or pivots are read");
    s.give(results[i], s.expand(s.filled(DType::kInt32, {}, 0), s.sizes_of(*results[i])));
  }
}

// x with a x = b. Both broadcast.
int solve(Steps& s, int a, int b) {
  const Sizes batch = broadcast(batch_of(s, a), batch_of(s, b));
  const auto widened = [&](int x) {
    const Sizes own = s.sizes(x);
    Sizes sizes = batch;
    sizes.insert(sizes.end(), own.end() - 2, own.end());
    return s.expand(x, sizes);
  };
  const int b_all = widened(b);
  return linalg(s, "solve", {widened(a), b_all}, s.sizes(b_all));
}

void import_solve(Steps& s, const Node& node) {
  const int a = s.operand("A");
  int b = s.operand({"B", "other"});
  const Sizes a_sizes = s.sizes(a), b_sizes = s.sizes(b);
  const bool is_vector = b_sizes.size() == 1 || std::equal(a_sizes.begin(), a_sizes.end() - 1,
                                                           b_sizes.begin(), b_sizes.end());
  if (is_vector) b = s.unsqueeze(b, -1);
  int x;
  if (node.bool_or("left", true)) {
    x = solve(s, a, b);
  } else {  // x a = b
    x = s.transpose(solve(s, s.transpose(a, -2, -1), s.transpose(b, -2, -1)), -2, -1);
  }
  give_first(s, node, is_vector ? s.reshape(x, s.result_sizes()) : x);
}

void import_inverse(Steps& s, const Node& node) {
  const int a = s.operand({"A", "self"});
  const std::optional<int64_t> size = s.fixed_size(a, s.rank(a) - 1);
  if (!size) return;
  Tensor identity = Tensor::zeros(DType::kFloat32, {*size, *size});
  for (int64_t i = 0; i < *size; ++i) identity.data<float>()[i * (*size + 1)] = 1;
  const int one =
      s.cast(s.add_constant(node.name() + "_identity", std::move(identity)), s.dtype(a));
  give_first(s, node, solve(s, a, one));
}

void import_determinant(Steps& s, const Node& node) {
  const int a = s.operand({"A", "self"});
  give_first(s, node, linalg(s, "det", {a}, batch_of(s, a)));
}

void import_cholesky(Steps& s, const Node& node) {
  const bool is_upper = node.bool_or("upper", false);
  int a = s.self();
  if (is_upper) a = s.transpose(a, -2, -1);
  const int factor = linalg(s, "cholesky", {a}, s.sizes(a));
  give_first(s, node, is_upper ? s.transpose(factor, -2, -1) : factor);
}

void import_qr(Steps& s, const Node& node) {
  const int a = s.operand("A");
  const std::string mode = text_argument(node, "mode");
  const Sizes sizes = s.sizes(a);
  const std::optional<int64_t> rows = s.fixed_size(a, sizes.size() - 2),
                               columns = s.fixed_size(a, sizes.size() - 1);
  if (!rows || !columns) return;
  const SizeExpr inner(mode == "complete" ? *rows : std::min(*rows, *columns));
  Sizes q = sizes, r = sizes;
  q.back() = inner;
  r[r.size() - 2] = inner;
  const int orthonormal = linalg(s, "qr", {a}, q);
  const int upper = s.add_result(node.name() + "_r", s.dtype(a), r);
  const std::vector<Value*> results = node.outputs();
  s.give(results[0], mode == "r" ? s.filled(s.dtype(a), {0}, 0) : orthonormal);
  s.give(results[1], upper);
}

constexpr ImportRow kProductRows[] = {
    {"aten.baddbmm", import_baddbmm},
    {"aten.addbmm", import_addbmm},
    {"aten.addmv", import_addmv},
    {"aten.addr", import_addr},
    {"aten.outer", import_outer},
    {"aten.ger", import_outer},
    {"aten.mv", import_mv},
    {"aten.dot", import_dot},
    {"aten.vdot", import_dot},
    {"aten.linalg_vecdot", import_dot},
    {"aten.linalg_cross", import_cross},
    {"aten.einsum", import_einsum},
    {"aten.tensordot", import_tensordot},
    {"aten.linalg_solve", import_solve},
    {"aten._linalg_solve_ex", import_solve},
    {"aten.linalg_solve_ex", import_solve},
    {"aten.linalg_inv", import_inverse},
    {"aten.linalg_inv_ex", import_inverse},
    {"aten.inverse", import_inverse},
    {"aten.linalg_det", import_determinant},
    {"aten._linalg_det", import_determinant},
    {"aten.det", import_determinant},
    {"aten.linalg_cholesky", import_cholesky},
    {"aten.linalg_cholesky_ex", import_cholesky},
    {"aten.cholesky", import_cholesky},
    {"aten.linalg_qr", import_qr},
};

}  // namespace

void import_scaled_addmm(Steps& s, const Node& node) {
  give_sum(s, node, s.matmul(s.operand("mat1"), s.operand("mat2")));
}

std::span<const ImportRow> product_import_rows() { return kProductRows; }

}  // namespace octet
