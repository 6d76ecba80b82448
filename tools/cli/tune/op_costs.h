// What it costs to compute ops another way than the quantized program does, in time measured on a
// backend.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include <ATen/core/ivalue.h>

#include "core/graph/graph.h"

namespace octet {

class OpCosts {
 public:
  // Lowers and times the program, kernel by kernel, on one batch. Throws what lower() and
  // Session::run throw.
  OpCosts(const Graph& quantized, std::string backend, int threads, std::vector<c10::IValue> batch);
  // The same of another program of the model, where ops are computed in the way of that name.
  void add(const std::string& way, const Graph& graph);

  // How much longer the kernels of these ops of the quantized program take that way, as a part of
  // the whole quantized program's time; 0 where they take no longer. A kernel of several ops counts
  // whole as soon as one of them is named. Without the conversions at the borders.
  double share_of(const std::vector<const Node*>& ops, const std::string& way) const;

 private:
  struct Times {
    std::vector<double> kernels;                                      // seconds
    std::unordered_map<std::string, std::vector<size_t>> kernels_of;  // by op
    double all = 0;
  };
  Times measure(const Graph& graph) const;
  static double seconds_of(const Times& times, const std::vector<const Node*>& ops);

  std::string backend_;
  int threads_;
  std::vector<c10::IValue> batch_;
  Times as_it_is_;
  std::unordered_map<std::string, Times> ways_;
};

}  // namespace octet
