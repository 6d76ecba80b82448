// A plug-in in C++: the reference under another name, so that every op crosses the C interface.
#include <cstdlib>
#include <stdexcept>

#include "backends/plugin/plugin.h"
#include "backends/reference/reference_backend.h"
#include "core/base/error.h"

namespace octet::mirror {

// Fails where OCTET_MIRROR_FAILS says so.
bool fails(const char* where) {
  const char* wanted = std::getenv("OCTET_MIRROR_FAILS");
  return wanted != nullptr && std::string(wanted) == where;
}

class Segment : public CompiledSegment {
 public:
  explicit Segment(std::unique_ptr<CompiledSegment> inner, std::string first)
      : inner_(std::move(inner)), first_(std::move(first)) {}
  void run(std::span<const Tensor> inputs, std::span<Tensor> outputs) override {
    if (fails("run")) throw Error("mirror", "sram", "got 2 MB, want at most 1 MB");
    if (fails("run_int")) throw 7;
    inner_->run(inputs, outputs);
  }
  std::vector<KernelReport> kernels() const override {
    return {{{first_},
             "mirrored",
             "plain",
             "rows -> rows",
             "",
             is_timed_ && !fails("times") ? 0.25 : 0,
             "slow"}};
  }
  std::vector<Warning> warnings() const override { return {{"it is a mirror", {first_}}}; }
  void time_kernels(bool on) override { is_timed_ = on; }
  std::vector<int64_t> output_shape(size_t) const override {
    if (fails("rows")) return {9, 3};
    return fails("row") ? std::vector<int64_t>{1, 3} : std::vector<int64_t>();
  }

 private:
  std::unique_ptr<CompiledSegment> inner_;
  std::string first_;
  bool is_timed_ = false;
};

class Mirror : public ReferenceBackend {
 public:
  Mirror() {
    if (fails("entry")) throw std::runtime_error("there is no mirror on the wall");
  }
  std::string name() const override { return "mirror"; }
  std::map<std::string, std::string> versions() const override { return {{"glass", "3.1.4"}}; }
  std::unique_ptr<CompiledSegment> compile(const Program& program, const octet::Segment& segment,
                                           int threads) const override {
    if (fails("compile_null")) return nullptr;
    return std::make_unique<Segment>(ReferenceBackend::compile(program, segment, threads),
                                     program.op(segment.ops.front()).name);
  }
};

class Support : public ReferenceSupport {
 public:
  std::string name() const override { return "mirror"; }
  std::map<std::string, std::string> versions() const override { return Mirror().versions(); }
  TransferCost transfer_cost() const override { return {1000, 2}; }
  std::vector<Tolerance> tolerances() const override { return {{"conv", 1, 0.5, "it is old"}}; }
};

}  // namespace octet::mirror

OCTET_PLUGIN(octet::mirror::Mirror, octet::mirror::Support, "1.2.0")
