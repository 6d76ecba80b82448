// The processes of mpirun as annotate/ knows them.
#pragma once

#include "annotate/observed/peers.h"
#include "tools/cli/processes/processes.h"

namespace octet {

class ProcessPeers : public Peers {
 public:
  explicit ProcessPeers(Processes& processes) : processes_(processes) {}

  size_t rank() const override { return processes_.rank(); }
  size_t count() const override { return processes_.count(); }
  void sum(std::span<double> numbers) override { processes_.sum(numbers); }
  void min(std::span<float> numbers) override { processes_.min(numbers); }
  std::vector<std::string> share(const std::string& text) override {
    return processes_.share(text);
  }
  Peers* get() { return processes_.count() == 1 ? nullptr : this; }

 private:
  Processes& processes_;
};

}  // namespace octet
