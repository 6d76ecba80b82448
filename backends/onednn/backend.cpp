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

// "conv2d_1 and 11 more" of a segment, for messages.
std::string describe_segment(const Program& program, const Segment& segment) {
  const ProgramOp& first = program.op(segment.ops.front());
  return segment.ops.size() == 1
             ? first.name
             : fmt::format("{} and {} more", first.name, segment.ops.size() - 1);
}

Error refused(const std::string& subject, const std::string& reason) {
  return Error("onednn", subject,
               fmt::format("oneDNN {} does not take it: {}; lower the program again",
                           onednn::library_versions().at("onednn"), reason));
}

}  // namespace

std::map<std::string, std::string> OneDnnBackend::versions() const {
  return onednn::library_versions();
}

std::unique_ptr<CompiledSegment> OneDnnBackend::compile(const Program& program,
                                                        const Segment& segment, int threads) const {
  onednn::library_versions();  // throws Error where the library does not fit
  OCTET_ASSERT(threads >= 1 && !segment.ops.empty(), "an empty segment or no threads");
  const onednn::ThreadCount count(threads);
  try {
    onednn::SegmentBuilder builder(program, segment, onednn::SegmentBuilder::Purpose::kRun);
    onednn::emit_segment(builder, program, segment);
    return std::make_unique<onednn::OneDnnSegment>(builder, threads);
  } catch (const onednn::OpRefusal& refusal) {
    throw refused(refusal.op, refusal.reason);
  } catch (const onednn::Refusal& refusal) {
    throw refused(describe_segment(program, segment), refusal.reason);
  } catch (const dnnl::error& error) {
    throw refused(describe_segment(program, segment), error.what());
  }
}

}  // namespace octet
