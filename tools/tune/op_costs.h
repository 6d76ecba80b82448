// What it costs to leave ops in floats, in time measured on a backend.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include <ATen/core/ivalue.h>

#include "core/graph/graph.h"

namespace octet {

class OpCosts {
 public:
  // Lowers and times both programs, kernel by kernel, on one batch. Throws what lower() and
  // Session::run throw.
  OpCosts(const Graph& original, const Graph& quantized, const std::string& backend, int threads,
          const std::vector<c10::IValue>& batch);

  // How much longer the kernels of these ops of the quantized program take in floats, as a part of
  // the whole quantized program's time; 0 where floats are no slower. A kernel of several ops
  // counts whole as soon as one of them is named. Without the conversions at the borders.
  double share_of(const std::vector<const Node*>& ops) const;

 private:
  struct Times {
    std::vector<double> kernels;                                      // seconds
    std::unordered_map<std::string, std::vector<size_t>> kernels_of;  // by op
    double all = 0;
  };
  static Times measure(const Graph& graph, const std::string& backend, int threads,
                       const std::vector<c10::IValue>& batch);
  static double seconds_of(const Times& times, const std::vector<const Node*>& ops);

  Times as_float_, as_integers_;
};

}  // namespace octet
