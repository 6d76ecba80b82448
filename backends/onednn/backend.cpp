// Compiling a segment: steps first, then addresses.
#include "backends/onednn/backend.h"

#include <fmt/format.h>

#include "backends/onednn/library.h"
#include "backends/onednn/ops.h"
#include "backends/onednn/plan.h"
#include "backends/onednn/threads.h"
#include "core/base/error.h"

namespace octet {
namespace {

// "conv conv2d_1, conv conv2d_2, ..." of a segment, for messages.
std::string describe_segment(const Program& program, const Segment& segment) {
  const ProgramOp& first = program.op(segment.ops.front());
  return segment.ops.size() == 1
             ? first.name
             : fmt::format("{} and {} more", first.name, segment.ops.size() - 1);
}

}  // namespace

std::map<std::string, std::string> OneDnnBackend::versions() const {
  return onednn::library_versions();
}

std::unique_ptr<CompiledSegment> OneDnnBackend::compile(const Program& program,
                                                        const Segment& segment, int threads) const {
  const std::map<std::string, std::string> versions = onednn::library_versions();
  OCTET_ASSERT(threads >= 1 && !segment.ops.empty(), "an empty segment or no threads");
  const onednn::ThreadCount count(threads);
  try {
    onednn::SegmentBuilder builder(program, segment, onednn::SegmentBuilder::Purpose::kRun);
    onednn::emit_segment(builder, program, segment);
    return std::make_unique<onednn::OneDnnSegment>(builder, threads);
  } catch (const onednn::Refusal& refusal) {
    throw Error("onednn", describe_segment(program, segment),
                fmt::format("oneDNN {} does not take it: {}; lower the program again",
                            versions.at("onednn"), refusal.reason));
  } catch (const dnnl::error& error) {
    throw Error("onednn", describe_segment(program, segment),
                fmt::format("oneDNN {} does not take it: {}; lower the program again",
                            versions.at("onednn"), error.what()));
  }
}

}  // namespace octet
