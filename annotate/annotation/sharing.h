// Finds which edges and values share an observer. Looks at specs only, not at data.
//
// Edges are joined by a SharedQuantizationSpec, and implicitly: an annotated edge joins the other
// annotated edges of the same value and the value's output spec when their final specs agree in
// everything but the observer, because they are the same tensor. The result does not depend on the
// order in which specs refer to each other.
#pragma once

#include "annotate/annotation/annotation.h"

namespace octet {

struct EdgeOrNodeHash {
  size_t operator()(const EdgeOrNode& key) const;
};

// Every annotated edge and output, in graph order; for each node first its input edges in the
// quantizer's order, then its outputs.
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
  std::vector<size_t> first_own;  // by group: its first member whose spec is not a shared one

  const Member* find(const EdgeOrNode& key) const;
  // The spec that `member` reaches by following SharedQuantizationSpecs.
  const SpecVariant& final_spec(const Member& member) const;
  // The spec of the group's observer: that of its first member whose spec is not a shared one.
  const SpecVariant& spec_of_group(int group) const;
};

enum class ImplicitSharing { kOn, kOff };
// The part of the program that an edge or value belongs to; 0: none. Nothing is shared implicitly
// across parts.
using PartOf = std::function<int(const EdgeOrNode&)>;

// Throws Error("prepare", ...) with the whole chain when a SharedQuantizationSpec refers to an edge
// or value without a spec or when specs refer to each other in a circle, and as check_spec does.
// All members of a group have final specs that agree in dtype, range and scheme.
SharingGroups find_sharing_groups(const Graph& graph, const Annotations& annotations,
                                  ImplicitSharing implicit = ImplicitSharing::kOn,
                                  const PartOf& part_of = {});

}  // namespace octet
