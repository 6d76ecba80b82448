// Keeps the results of calibration, so that preparing the same program again with other settings
// and the same data calibrates only what is new. `octet tune` prepares one program some twenty
// times, and most observers look at the same values each time.
//
// An observer's result is reused when the float program (ops, names, weights), the values that its
// group observes, in order, and its arguments are all the same. What an observer sees does not
// depend on other observers, as calibration runs the float program, so the bits are the same as
// without this memory.
//
//   first trial     observe(%conv), observe(%relu), ...    calibrated with all batches
//   later trials    observe(%conv) known                    not observed again
//                   observe(%relu + %add) new               the program runs up to the last of it
//   nothing new     nothing runs
#pragma once

#include <unordered_set>

#include "annotate/observed/observed_graph.h"

namespace octet {

// Values whose channels have been multiplied by powers of two since the program was described, with
// a text that identifies the factors. REQUIRES: nothing else about the program's values has
// changed.
using ScaledValues = std::unordered_map<const Value*, std::string>;

class ObserverMemory {
 public:
  // Runs the data through the given program so that its observers see it.
  using Calibrate = std::function<void(ObservedGraph& part)>;

  // Text that identifies the program, without its observer nodes, and its weights. "" when its
  // observers cannot be kept: it has opaque parts, control flow, random numbers, memory that it
  // writes to, fake-quants or observers from outside of this tree.
  static std::string describe(const ObservedGraph& observed);

  // Fills the observers from memory, calls `calibrate` for the rest, and keeps its result.
  // `observed` is prepared and its observers have seen nothing. program: from describe(); "":
  // calibrates and keeps nothing. data: identifies the data. scaled: what has changed since
  // describe().
  void fill(ObservedGraph& observed, const std::string& program, const std::string& data,
            const Calibrate& calibrate, const ScaledValues& scaled = {});

 private:
  using Keys = std::map<int, std::string>;  // by group
  static Keys keys_of(const ObservedGraph& observed, const std::string& program,
                      const ScaledValues& scaled);

  std::unordered_map<std::string, std::shared_ptr<const Observer>> known_;
};

// A copy of the program with the observer nodes of these groups only, and without the nodes that no
// observed value depends on (in-place writes to other memory included). It returns nothing. It
// shares its observers with the original; other groups have none. REQUIRES: no opaque parts, no
// bodies of control flow, and no outputs besides user outputs.
ObservedGraph part_for_groups(const ObservedGraph& observed, const std::unordered_set<int>& groups);

}  // namespace octet
