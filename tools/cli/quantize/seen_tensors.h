// What observers and weights of a program were before convert used them up: for the report's page.
#pragma once

#include <map>
#include <string>

#include <nlohmann/json.hpp>

#include "annotate/observed/observed_graph.h"

namespace octet {

struct SeenTensors {
  // By the name of the observed value, of those that data flowed through: {"observer", "observed":
  // [least, largest], "histogram": {"min", "max", "counts"}}; what an observer does not keep is
  // left out.
  std::map<std::string, nlohmann::ordered_json> activations;
  struct Weight {
    std::string name;  // its key among the constants
    Tensor tensor;     // shares the program's bytes
  };
  // By the name of the node: its first observed constant of two and more dimensions.
  std::map<std::string, Weight> weights;
};

// Of the program itself, not of the bodies in it.
SeenTensors see_tensors(const ObservedGraph& observed);

}  // namespace octet
