// Joins edges and values that share an observer into groups, with a union-find over specs:
//
//   %a = relu(...)           output: int8                          group 0
//   %c = cat([%a, %b])       input %a: int8                        group 0, implicitly: same tensor
//                            input %b: same as the edge %a -> %c   group 0
//                            output:   same as the edge %a -> %c   group 0
//   %d = conv2d(%c, ...)     input %c: int8                        group 0, implicitly
//
// So %a, %b and %c have one observer, which sees the values of all three, and one scale.
#include "annotate/annotation/sharing.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"

namespace octet {
namespace {

// The fields in which two specs must agree to share implicitly. A field that only one of them has
// makes them differ.
struct SharedFields {
  DType dtype;
  std::optional<bool> is_dynamic;
  std::optional<int64_t> quant_min, quant_max;
  std::optional<QScheme> qscheme;
  std::optional<std::optional<int>> ch_axis;
  std::optional<double> scale;
  std::optional<int64_t> zero_point;
  // torchao looks at the dtype alone and joins a scale per token with a scale per tensor
  std::optional<AffineOptions> affine = {};
  bool operator==(const SharedFields&) const = default;
};

std::optional<SharedFields> shared_fields(const SpecVariant& spec) {
  if (const QuantizationSpec* s = std::get_if<QuantizationSpec>(&spec))
    return SharedFields{s->dtype,
                        s->is_dynamic,
                        s->quant_min,
                        s->quant_max,
                        s->qscheme,
                        s->ch_axis,
                        {},
                        {},
                        s->observer_or_fake_quant_ctr.affine};
  if (const FixedQParamsQuantizationSpec* s = std::get_if<FixedQParamsQuantizationSpec>(&spec))
    return SharedFields{s->dtype, s->is_dynamic, s->quant_min, s->quant_max, s->qscheme,
                        {},       s->scale,      s->zero_point};
  if (const DerivedQuantizationSpec* s = std::get_if<DerivedQuantizationSpec>(&spec))
    return SharedFields{s->dtype,   s->is_dynamic, s->quant_min, s->quant_max,
                        s->qscheme, s->ch_axis,    {},           {}};
  return std::nullopt;
}

class UnionFind {
 public:
  explicit UnionFind(size_t size) : parent_(size) {
    std::iota(parent_.begin(), parent_.end(), size_t{0});
  }
  size_t find(size_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  void join(size_t a, size_t b) { parent_[find(b)] = find(a); }

 private:
  std::vector<size_t> parent_;
};

void add_member(SharingGroups& groups, EdgeOrNode key, const SpecVariant& spec,
                bool allow_implicit_sharing) {
  check_spec(spec, to_text(key));
  groups.index[key] = groups.members.size();
  groups.members.push_back({key, spec, allow_implicit_sharing, -1});
}

void collect_members(SharingGroups& groups, const Graph& graph, const Annotations& annotations) {
  for (Node* node : graph.nodes()) {
    const QuantizationAnnotation* annotation = annotations.find(node);
    if (annotation == nullptr) continue;
    for (const auto& [value, spec] : annotation->input_qspec_map) {
      const std::vector<Value*> inputs = node->inputs();
      if (std::ranges::find(inputs, value) == inputs.end())
        throw Error("prepare", "%" + node->name(),
                    fmt::format("annotated with a spec for %{}, which is not one of its inputs",
                                value == nullptr ? "?" : value->name()));
      add_member(groups, Edge{value, node}, spec, annotation->allow_implicit_sharing);
    }
    const std::vector<Value*> outputs = node->outputs();
    for (const auto& [value, spec] : annotation->output_qspec_map)
      if (std::ranges::find(outputs, value) == outputs.end())
        throw Error("prepare", "%" + node->name(),
                    fmt::format("annotated with a spec for %{}, which is none of its results",
                                value == nullptr ? "?" : value->name()));
    for (Value* output : outputs)
      if (const SpecVariant* spec = annotation->find_output(output))
        add_member(groups, output, *spec, annotation->allow_implicit_sharing);
  }
}

// "(%y -> %relu) as (%x)": the way from one shared spec to the next.
std::string describe_way(const SharingGroups& groups, const std::vector<size_t>& way) {
  std::vector<std::string> names;
  for (size_t i : way) names.push_back("(" + to_text(groups.members[i].key) + ")");
  return fmt::format("{}", fmt::join(names, " as "));
}

// Follows shared specs to those that are not shared, each link once.
class Followed {
 public:
  explicit Followed(const SharingGroups& groups)
      : groups_(groups), ends_(groups.members.size(), kUnknown) {}

  size_t end_of(size_t start) {
    std::vector<size_t> way;
    size_t i = start;
    while (ends_[i] == kUnknown) {
      const SharedQuantizationSpec* shared =
          std::get_if<SharedQuantizationSpec>(&groups_.members[i].spec);
      if (shared == nullptr) {
        ends_[i] = i;
        break;
      }
      ends_[i] = kOnTheWay;
      way.push_back(i);
      i = next_of(*shared, way);
    }
    if (ends_[i] == kOnTheWay) fail_on_circle(i, way);
    for (size_t passed : way) ends_[passed] = ends_[i];
    return ends_[i];
  }

 private:
  static constexpr size_t kUnknown = static_cast<size_t>(-1);
  static constexpr size_t kOnTheWay = static_cast<size_t>(-2);

  size_t next_of(const SharedQuantizationSpec& shared, const std::vector<size_t>& way) const {
    const auto next = groups_.index.find(shared.edge_or_node);
    if (next == groups_.index.end())
      throw Error("prepare", to_text(groups_.members[way.front()].key),
                  fmt::format("shares the observer of ({}), which has no spec, through {}; "
                              "annotate that edge or value, or share with another",
                              to_text(shared.edge_or_node), describe_way(groups_, way)));
    return next->second;
  }

  [[noreturn]] void fail_on_circle(size_t again, std::vector<size_t> way) const {
    way.push_back(again);
    throw Error("prepare", to_text(groups_.members[way.front()].key),
                fmt::format("shared specs form a cycle: {}; give one of them a separate spec",
                            describe_way(groups_, way)));
  }

  const SharingGroups& groups_;
  std::vector<size_t> ends_;
};

// Joins the edge with the other annotated edges of its value and with the value's output.
void share_implicitly(const SharingGroups& groups,
                      const std::vector<std::optional<SharedFields>>& fields, const PartOf& part_of,
                      size_t i, UnionFind& sets) {
  const Edge& edge = std::get<Edge>(groups.members[i].key);
  const auto join_with = [&](const EdgeOrNode& other) {
    const auto it = groups.index.find(other);
    if (it == groups.index.end() || fields[it->second] != fields[i]) return;
    if (!part_of || part_of(other) == part_of(edge)) sets.join(it->second, i);
  };
  for (Node* user : edge.value->users())
    if (user != edge.user) join_with(Edge{edge.value, user});
  join_with(edge.value);
}

}  // namespace

size_t EdgeOrNodeHash::operator()(const EdgeOrNode& key) const {
  if (const Edge* edge = std::get_if<Edge>(&key))
    return std::hash<const void*>()(edge->value) * 31 + std::hash<const void*>()(edge->user);
  return std::hash<const void*>()(std::get<Value*>(key));
}

const SharingGroups::Member* SharingGroups::find(const EdgeOrNode& key) const {
  const auto it = index.find(key);
  return it == index.end() ? nullptr : &members[it->second];
}

const SpecVariant& SharingGroups::final_spec(const Member& member) const {
  return members[Followed(*this).end_of(index.at(member.key))].spec;
}

const SpecVariant& SharingGroups::spec_of_group(int group) const {
  return members.at(first_own.at(static_cast<size_t>(group))).spec;
}

SharingGroups find_sharing_groups(const Graph& graph, const Annotations& annotations,
                                  ImplicitSharing implicit, const PartOf& part_of) {
  SharingGroups groups;
  collect_members(groups, graph, annotations);
  Followed followed(groups);
  std::vector<std::optional<SharedFields>> fields;
  for (size_t i = 0; i < groups.members.size(); ++i)
    fields.push_back(shared_fields(groups.members[followed.end_of(i)].spec));
  UnionFind sets(groups.members.size());
  for (size_t i = 0; i < groups.members.size(); ++i) {
    const SharingGroups::Member& member = groups.members[i];
    if (implicit == ImplicitSharing::kOn && member.allow_implicit_sharing &&
        std::holds_alternative<Edge>(member.key))
      share_implicitly(groups, fields, part_of, i, sets);
    if (const SharedQuantizationSpec* shared = std::get_if<SharedQuantizationSpec>(&member.spec))
      sets.join(groups.index.at(shared->edge_or_node), i);
  }
  std::unordered_map<size_t, int> numbers;
  for (size_t i = 0; i < groups.members.size(); ++i)
    groups.members[i].group =
        numbers.try_emplace(sets.find(i), static_cast<int>(numbers.size())).first->second;
  groups.group_count = static_cast<int>(numbers.size());
  groups.first_own.assign(numbers.size(), groups.members.size());
  for (size_t i = groups.members.size(); i-- > 0;)
    if (!std::holds_alternative<SharedQuantizationSpec>(groups.members[i].spec))
      groups.first_own[static_cast<size_t>(groups.members[i].group)] = i;
  return groups;
}

}  // namespace octet
