#include "annotate/compare/compare.h"

#include <iterator>
#include <optional>
#include <utility>

#include "annotate/compare/bodies.h"
#include "annotate/compare/comparer.h"
#include "core/base/error.h"
#include "core/passes/widen_half.h"

namespace octet {
namespace {

Comparison compare_programs(const Graph& given_reference, const Graph& given_subject,
                            const BatchSource& data, const CompareOptions& options,
                            Shadows shadows) {
  const InFloat32 reference(given_reference), subject(given_subject);
  Comparer comparer(reference.graph(), subject.graph(), options, shadows);
  std::optional<BodyComparer> bodies;
  if (options.bodies) bodies.emplace(reference.graph(), subject.graph(), options, shadows);
  size_t batches = 0;
  while (std::optional<std::vector<c10::IValue>> batch = data()) {
    comparer.add(*batch);
    if (bodies) bodies->add(*batch);
    ++batches;
    if (options.progress) options.progress(batches);
  }
  if (batches == 0)
    throw Error("compare", "the data", "holds no batch; give at least one set of inputs");
  Comparison comparison = std::move(comparer).take();
  if (bodies) {
    comparison.body_weights = bodies->weights();
    std::vector<OpComparison> inner = std::move(*bodies).take();
    comparison.ops.insert(comparison.ops.end(), std::make_move_iterator(inner.begin()),
                          std::make_move_iterator(inner.end()));
  }
  return comparison;
}

}  // namespace

std::optional<double> OpComparison::steps() const {
  if (!rounding || !isolated.has_data()) return std::nullopt;
  return isolated.largest / rounding->scale;
}

Comparison compare_outputs(const Graph& reference, const Graph& subject, const BatchSource& data,
                           const CompareOptions& options) {
  return compare_programs(reference, subject, data, options, Shadows::kWithout);
}

Comparison shadow(const Graph& reference, const Graph& subject, const BatchSource& data,
                  const CompareOptions& options) {
  return compare_programs(reference, subject, data, options, Shadows::kWith);
}

}  // namespace octet
