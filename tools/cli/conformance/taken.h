// Checks that a lowered program computes in integers what the quantizer annotated.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "annotate/observed/observed_graph.h"
#include "lowering/program/backend.h"

namespace octet::conformance {

// The types that the specs of an annotated node require of the op that computes it.
struct Wanted {
  bool reads_integers = false;  // some activation has a static spec
  bool reads_floats = false;    // some floating-point activation has none
  bool ends_pattern = false;    // some comes from an annotated node that keeps its result float
  bool gives_integers = false;
};
// By the names of annotated nodes, of bodies too.
std::map<std::string, Wanted> wanted_ops(const ObservedGraph& observed);

// Describes the first annotated op that does not do what its specs require: all backends refuse it,
// or it reads or gives floats. "" if there is none.
std::string find_untaken(const Program& program, const Supports& supports,
                         const std::map<std::string, Wanted>& wanted);

// The kinds of float ops that a backend accepts with 8-bit inputs and results.
std::vector<std::string> find_left_float(const Program& program, const Supports& supports);

}  // namespace octet::conformance
