// Which edges and values share one observer. Works on specs alone; does not look at data.
//
// Two things join edges: a SharedQuantizationSpec, and implicit sharing: an annotated edge joins
// the other annotated edges of the same value and the value's own output spec when their final
// specs agree in everything but the observer, because these are the same tensor. The outcome does
// not depend on the order in which specs refer to each other.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "annotate/annotation/annotation.h"

namespace octet {

struct EdgeOrNodeHash {
  size_t operator()(const EdgeOrNode& key) const;
};

// Every annotated edge and output in graph order: for each annotated node its input edges as the
// quantizer gave them, then its output.
struct SharingGroups {
  struct Member {
    EdgeOrNode key;
    SpecVariant spec;
    bool allow_implicit_sharing = true;
    int group = -1;
  };
  std::vector<Member> members;
  std::unordered_map<EdgeOrNode, size_t, EdgeOrNodeHash> index;  // into members
  int group_count = 0;
  std::vector<size_t> first_own;  // by group: its first member that has a spec of its own

  const Member* find(const EdgeOrNode& key) const;
  // The spec that `member` ends at when its SharedQuantizationSpecs are followed.
  const SpecVariant& final_spec(const Member& member) const;
  // The spec from which the group's observer is made: of its first member that has one of its own.
  const SpecVariant& spec_of_group(int group) const;
};

enum class ImplicitSharing { kOn, kOff };
// The part of the program that an edge or value belongs to, 0: none. Nothing is shared implicitly
// between two parts.
using PartOf = std::function<int(const EdgeOrNode&)>;

// Throws Error("prepare", ...) with the whole chain when a SharedQuantizationSpec names an edge or
// value that has no spec, when specs refer to each other in a circle, and as check_spec does. All
// members of a group end at specs that agree in dtype, range and scheme.
SharingGroups find_sharing_groups(const Graph& graph, const Annotations& annotations,
                                  ImplicitSharing implicit = ImplicitSharing::kOn,
                                  const PartOf& part_of = {});

}  // namespace octet
