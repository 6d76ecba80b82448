// What observers have learnt, for other preparations of the same program that calibrate with the
// same data: `octet tune` prepares one program some twenty times, and most of its observers look at
// the same values each time.
//
// An observer is the same when the float program is (its ops, names and weights), the values that
// its group observes are, in the same order, and all its arguments are. What it sees does not
// depend on the others: calibration runs the float program. So the result has the same bits as
// without a memory.
//
//   first trial     observe(%conv), observe(%relu), ...    calibrated with all batches
//   later trials    observe(%conv) known                    not observed again
//                   observe(%relu + %add) new               the program runs up to the last of it
//   none is new     nothing runs
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "annotate/observed/observed_graph.h"

namespace octet {

// The values whose channels have been multiplied by powers of two since a program was described,
// with what tells the factors apart; nothing else about the program's values has changed.
using ScaledValues = std::unordered_map<const Value*, std::string>;

class ObserverMemory {
 public:
  // Runs the data through what it is given: observers see it and learn.
  using Calibrate = std::function<void(ObservedGraph& part)>;

  // The program without its observer nodes, and its weights; "" for one whose observers are not
  // kept: it has opaque parts, control flow, random numbers, memory that it writes to, fake-quants
  // or observers of other makes.
  static std::string describe(const ObservedGraph& observed);

  // Fills the observers, from what is known and by `calibrate` of the rest, and keeps that. data:
  // which data that is. `observed` is prepared, and its observers have seen nothing. program: of
  // describe(); "": calibrates and keeps nothing. scaled: what has changed since then.
  void fill(ObservedGraph& observed, const std::string& program, const std::string& data,
            const Calibrate& calibrate, const ScaledValues& scaled = {});

 private:
  using Keys = std::map<int, std::string>;  // by group
  static Keys keys_of(const ObservedGraph& observed, const std::string& program,
                      const ScaledValues& scaled);

  std::unordered_map<std::string, std::shared_ptr<const Observer>> known_;
};

// The part of an observed program that some of its observers need.

// A copy without the observer nodes of other groups than these, and without the nodes that no
// observed value depends on, in-place writes to other memory among them. It returns nothing. Its
// observers are the same objects, so what it learns the original knows; those of other groups are
// left out of it. REQUIRES: no opaque parts, no bodies of control flow, and no output but the
// user's.
ObservedGraph part_for_groups(const ObservedGraph& observed, const std::unordered_set<int>& groups);

}  // namespace octet
