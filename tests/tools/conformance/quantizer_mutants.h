// Quantizers that make one mistake each, for the test of the conformance kit.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "annotate/annotation/quantizer.h"

namespace octet::test {

struct QuantizerMutant {
  const char* name;
  const char* base;     // a quantizer that makes no mistake
  const char* backend;  // which runs what it annotates
  // What happens after the base has annotated.
  std::function<void(Graph&, Annotations&)> change = {};
  std::function<void(Graph&)> transform = {};  // after the base has transformed
  std::function<void(ObserverMap&)> observers = {};
};

std::span<const QuantizerMutant> quantizer_mutants();
std::unique_ptr<Quantizer> make_mutant(const QuantizerMutant& mutant);

}  // namespace octet::test
