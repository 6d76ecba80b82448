#include "annotate/conformance/checked_quantizer.h"

#include "annotate/conformance/annotation_checks.h"
#include "core/base/error.h"
#include "core/text/text.h"

namespace octet {
namespace {

constexpr int kOrders = 3;

// The annotations that `quantizer` makes on the graph, which gets its old names back.
std::string annotated_text(Quantizer& quantizer, Graph& graph, const OldNames& names = {}) {
  Annotations annotations;
  Report report;
  quantizer.annotate(graph, annotations, report);
  check_legal(graph, annotations);
  rename_back(graph, names);
  return sorted_text(graph, annotations);
}

void check_equal(const char* check, const std::string& got, const std::string& want) {
  if (const std::string difference = first_difference(got, want); !difference.empty())
    throw Error("conformance", check, difference);
}

// A new quantizer that has seen the graph, as some remember what they transformed.
std::unique_ptr<Quantizer> made_for(const MakeQuantizer& make, Graph& graph) {
  std::unique_ptr<Quantizer> quantizer = make();
  quantizer->transform_for_annotation(graph);
  return quantizer;
}

}  // namespace

void CheckedQuantizer::transform_for_annotation(Graph& graph) {
  inner_->transform_for_annotation(graph);
  const std::unique_ptr<Graph> again = clone(graph);
  made_for(make_, *again);
  check_equal("transform", to_text(*again), to_text(graph));
}

void CheckedQuantizer::annotate(Graph& graph, Annotations& annotations, Report& report) {
  const std::unique_ptr<Graph> original = clone(graph), repeated = clone(graph),
                               fresh = clone(graph);
  // Before the graph that counts, whose nodes the quantizer may remember until validate().
  const std::string first = annotated_text(*inner_, *repeated);
  inner_->annotate(graph, annotations, report);
  check_equal("edited", to_text(graph), to_text(*original));
  check_legal(graph, annotations);
  const std::string want = sorted_text(graph, annotations);
  check_equal("repeated", first, want);
  check_equal("repeated", annotated_text(*made_for(make_, *fresh), *fresh), want);
  std::mt19937 random(seed_);
  const std::unique_ptr<Graph> renamed = clone(*original);
  const OldNames names = rename_all(*renamed, random);
  check_equal("renamed", annotated_text(*made_for(make_, *renamed), *renamed, names), want);
  for (int i = 0; i < kOrders; ++i) {
    const std::unique_ptr<Graph> reordered = permuted(*original, random);
    check_equal("reordered", annotated_text(*made_for(make_, *reordered), *reordered), want);
  }
  if (!make_twin_) return;
  const std::unique_ptr<Graph> other = clone(*original);
  check_equal("same", annotated_text(*made_for(make_twin_, *other), *other), want);
}

}  // namespace octet
