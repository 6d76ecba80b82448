#include "quantizers/compose/composable_quantizer.h"

#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "quantizers/common/float_report.h"

namespace octet {

namespace {

// An earlier annotation, and the quantizer that made it.
struct Sealed {
  QuantizationAnnotation annotation;
  size_t owner;
};
// the owner of annotations that existed before: opaque parts
constexpr size_t kNobody = static_cast<size_t>(-1);
using SealedAnnotations = std::unordered_map<const Node*, Sealed>;

bool is_same(const SpecVariant& a, const SpecVariant& b) {
  const DerivedQuantizationSpec* left = std::get_if<DerivedQuantizationSpec>(&a);
  const DerivedQuantizationSpec* right = std::get_if<DerivedQuantizationSpec>(&b);
  if (left && right)
    return left->derived_from == right->derived_from && left->derive_name == right->derive_name &&
           left->dtype == right->dtype && left->quant_min == right->quant_min &&
           left->quant_max == right->quant_max && left->qscheme == right->qscheme &&
           left->ch_axis == right->ch_axis && left->is_dynamic == right->is_dynamic;
  if (const QuantizationSpec* spec = std::get_if<QuantizationSpec>(&a))
    return std::get_if<QuantizationSpec>(&b) && *spec == std::get<QuantizationSpec>(b);
  if (const SharedQuantizationSpec* spec = std::get_if<SharedQuantizationSpec>(&a))
    return std::get_if<SharedQuantizationSpec>(&b) && *spec == std::get<SharedQuantizationSpec>(b);
  if (const FixedQParamsQuantizationSpec* spec = std::get_if<FixedQParamsQuantizationSpec>(&a))
    return std::get_if<FixedQParamsQuantizationSpec>(&b) &&
           *spec == std::get<FixedQParamsQuantizationSpec>(b);
  return false;
}

// Compares the rule too: it carries the seal, which is lost when a quantizer replaces an annotation
// by an equal one.
bool is_same(const QuantizationAnnotation& a, const QuantizationAnnotation& b) {
  if (a.rule != b.rule || a.allow_implicit_sharing != b.allow_implicit_sharing ||
      a.output_qspec.has_value() != b.output_qspec.has_value())
    return false;
  if (a.output_qspec && !is_same(*a.output_qspec, *b.output_qspec)) return false;
  const auto same_specs = [](const auto& left, const auto& right) {
    return std::equal(
        left.begin(), left.end(), right.begin(), right.end(),
        [](const std::pair<Value*, SpecVariant>& x, const std::pair<Value*, SpecVariant>& y) {
          return x.first == y.first && is_same(x.second, y.second);
        });
  };
  return same_specs(a.input_qspec_map, b.input_qspec_map) &&
         same_specs(a.output_qspec_map, b.output_qspec_map);
}

// The reasons of several quantizers for one node. A reason from a quantizer's mode is dropped if
// another quantizer gives a real one.
class ReasonTable {
 public:
  void add(const std::string& quantizer, const ReportEntry& entry) {
    const auto [found, is_new] = index_.emplace(entry.node, entries_.size());
    const std::string reason = fmt::format("{}: {}", quantizer, entry.reason);
    if (is_new) entries_.push_back({entry.stage, entry.node, entry.target, entry.module, {}});
    ReportEntry& known = entries_[found->second];
    if (known.stage != entry.stage && entry.stage == kModeStage) return;
    if (known.stage != entry.stage) known.reason.clear();
    known.stage = entry.stage;
    known.reason += (known.reason.empty() ? "" : "; ") + reason;
  }
  const std::vector<ReportEntry>& entries() const { return entries_; }

 private:
  std::vector<ReportEntry> entries_;
  std::unordered_map<std::string, size_t> index_;
};

}  // namespace

ComposableQuantizer::ComposableQuantizer(std::vector<std::unique_ptr<Quantizer>> quantizers)
    : quantizers_(std::move(quantizers)) {
  OCTET_ASSERT(!quantizers_.empty(), "a composition of no quantizers");
  OCTET_ASSERT(
      std::ranges::none_of(quantizers_, [](const auto& quantizer) { return quantizer == nullptr; }),
      "null quantizer");
  for (const std::unique_ptr<Quantizer>& quantizer : quantizers_)
    if (const std::vector<OpaquePart>* parts = quantizer->opaque_parts())
      opaque_.insert(opaque_.end(), parts->begin(), parts->end());
}

std::string ComposableQuantizer::name() const {
  std::vector<std::string> names;
  for (const std::unique_ptr<Quantizer>& quantizer : quantizers_)
    names.push_back(quantizer->name());
  return fmt::format("{}", fmt::join(names, ","));
}

void ComposableQuantizer::check_model(const Graph& model) const {
  for (const std::unique_ptr<Quantizer>& quantizer : quantizers_) quantizer->check_model(model);
}

void ComposableQuantizer::transform_for_annotation(Graph& graph) {
  for (const std::unique_ptr<Quantizer>& quantizer : quantizers_)
    quantizer->transform_for_annotation(graph);
}

void ComposableQuantizer::annotate(Graph& graph, Annotations& annotations, Report& report) {
  SealedAnnotations sealed;
  ReasonTable reasons;
  const auto describe = [&](size_t i) {
    if (i == kNobody) return std::string("the caller");
    return fmt::format("quantizer \"{}\" ({} of {})", quantizers_[i]->name(), i + 1,
                       quantizers_.size());
  };
  for (Node* node : graph.nodes())
    if (const QuantizationAnnotation* before = annotations.find(node))
      sealed.emplace(node, Sealed{*before, kNobody});
  for (size_t i = 0; i < quantizers_.size(); ++i) {
    Report own;
    quantizers_[i]->annotate(graph, annotations, own);
    for (Node* node : graph.nodes()) {
      QuantizationAnnotation* now = annotations.find(node);
      const SealedAnnotations::const_iterator before = sealed.find(node);
      if (before == sealed.end()) {
        if (!now) continue;
        now->rule = fmt::format("{}: {}", quantizers_[i]->name(), now->rule);
        sealed.emplace(node, Sealed{*now, i});
      } else if (!now || !is_same(*now, before->second.annotation)) {
        throw Error("quantizer", "%" + node->name(),
                    fmt::format("{} {} the annotation that {} made; leave the op to one of them, "
                                "e.g. by null for its module_name",
                                describe(i), now ? "has changed" : "has removed",
                                describe(before->second.owner)));
      }
    }
    for (const ReportEntry& entry : own.entries()) reasons.add(quantizers_[i]->name(), entry);
    for (const std::string& note : own.notes())
      report.note(fmt::format("{}: {}", quantizers_[i]->name(), note));
  }
  for (const ReportEntry& entry : reasons.entries()) {
    const Node* node = graph.find_node(entry.node);
    if (!node || !annotations.find(node)) report.add(entry);
  }
}

void ComposableQuantizer::validate(const Graph& graph, const Annotations& annotations) {
  for (const std::unique_ptr<Quantizer>& quantizer : quantizers_)
    quantizer->validate(graph, annotations);
}

void ComposableQuantizer::prepare_obs_or_fq_callback(const Graph& graph, ObserverMap& observers) {
  for (const std::unique_ptr<Quantizer>& quantizer : quantizers_)
    quantizer->prepare_obs_or_fq_callback(graph, observers);
}

}  // namespace octet
