// The valid rows come first in a row-major tensor, so the body reads inputs and writes results
// directly in the memory of the whole tensors.
#include <algorithm>

#include <fmt/format.h>

#include "backends/runtime/call_places.h"
#include "backends/runtime/check_program.h"
#include "backends/runtime/control_segment.h"
#include "backends/runtime/session.h"
#include "core/base/error.h"
#include "lowering/program/control.h"
#include "lowering/program/symbols.h"

namespace octet {
namespace {

SessionOptions options_of(SessionOptions options, const Program& body) {
  options.cache_folder.clear();
  // the bytes that the outer program counted for it
  options.cached_bytes = options.memory_limit == 0 ? 0 : std::max<size_t>(held_bytes(body), 1);
  return options;
}

const Program& body_of(const Program& program, const ProgramOp& op) {
  return program.bodies[static_cast<size_t>(bodies_of(op).front())];
}

class RestSegment : public CompiledSegment {
 public:
  RestSegment(const Program& program, const Segment& segment, const SessionOptions& options)
      : program_(program),
        op_(program.op(segment.ops.front())),
        places_(program, segment),
        counts_(static_cast<size_t>(op_.get(attr::kCounts))),
        session_(body_of(program, op_), options_of(options, body_of(program, op_))) {
    for (int index : session_.program().inputs)
      shapes_.push_back(index < 0 ? std::vector<int64_t>()
                                  : session_.program().tensor(index).shape);
    for (const std::vector<int64_t>& shape : shapes_) addresses_.push_back(shape.data());
    for (size_t k = 0; k < counts_; ++k) limits_.push_back(limits_of(k));
  }

  // Allocates nothing if the counts equal those of the previous run.
  void run(std::span<const Tensor> inputs, std::span<Tensor> outputs) override {
    places_.find(inputs, outputs);
    const std::span<const void* const> operands = places_.inputs();
    bool is_new = !is_bound_;
    is_bound_ = false;
    for (size_t k = 0; k < counts_; ++k) {
      const int64_t count = *static_cast<const int64_t*>(operands[k]);
      check_count_of(k, count);
      is_new = is_new || shapes_[k][0] != count;
      shapes_[k][0] = count;
    }
    if (is_new) bind();
    is_bound_ = true;
    session_.run(operands.subspan(counts_), places_.outputs());
  }

  std::vector<int64_t> output_shape(size_t output) const override {
    const int position = places_.op_output(output);
    return position < 0 ? std::vector<int64_t>()
                        : session_.output_shape(static_cast<size_t>(position));
  }
  std::vector<KernelReport> kernels() const override { return session_.kernels(); }
  void time_kernels(bool on) override { session_.time_kernels(on); }

 private:
  struct Limits {
    int64_t least, greatest;
  };

  // The number of rows, and the range from the export.
  Limits limits_of(size_t k) const {
    const Program& body = session_.program();
    const ProgramTensor& rows = body.tensor(body.inputs[k]);
    Limits limits{rows.shape[0], rows.shape[0]};
    for (const ShapeSymbol& symbol : body.symbols)
      if (find_counted_input(body, op_, symbol.name) == k)
        limits = {symbol.min, std::min(symbol.max, limits.greatest)};
      else if (!rows.sizes.empty() && rows.sizes[0].symbols().contains(symbol.name))
        limits.least = 0;
    return limits;
  }

  void check_count_of(size_t k, int64_t count) const {
    const auto [least, greatest] = limits_[k];
    if (count >= least && count <= greatest) return;
    const Program& body = session_.program();
    throw Error("session", fmt::format("{} ({})", op_.name, body.tensor(body.inputs[k]).name),
                fmt::format("the count is {} in this run, want {} to {}, which the program was "
                            "exported for; give other inputs, or export with a wider range",
                            count, least, greatest));
  }

  void bind() {
    if (!session_.program().symbols.empty()) session_.bind(addresses_);
    check_outputs();
  }

  // Formulas in a damaged file may exceed the planned sizes.
  void check_outputs() const {
    for (size_t k = 0; k < op_.outputs.size(); ++k) {
      const std::vector<int64_t> shape = session_.output_shape(k);
      const ProgramTensor& planned = program_.output(op_, k);
      if (product(shape) > planned.numel())
        throw Error("session", op_.name,
                    fmt::format("output {} has {} elements in this run, want at most {}; lower the "
                                "model again",
                                k, product(shape), planned.numel()));
    }
  }

  const Program& program_;
  const ProgramOp& op_;
  CallPlaces places_;
  const size_t counts_;
  Session session_;
  std::vector<std::vector<int64_t>> shapes_;  // by input of the body
  std::vector<const int64_t*> addresses_;
  std::vector<Limits> limits_;  // by count
  bool is_bound_ = false;       // to shapes_
};

}  // namespace

std::unique_ptr<CompiledSegment> compile_rest(const Program& program, const Segment& segment,
                                              const SessionOptions& options) {
  return std::make_unique<RestSegment>(program, segment, options);
}

}  // namespace octet
