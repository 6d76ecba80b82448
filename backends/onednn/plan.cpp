// Assigns addresses to buffers and runs the steps.
#include "backends/onednn/plan.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "backends/onednn/kernels/loop.h"
#include "backends/onednn/library.h"
#include "backends/onednn/saturation.h"
#include "core/base/error.h"
#include "lowering/program/arena_plan.h"

namespace octet::onednn {
namespace {

constexpr int64_t kAlignment = 64;

int64_t round_up(int64_t bytes) {
  return (std::max<int64_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
}

std::shared_ptr<std::byte> zeroed_block(int64_t bytes) {
  std::shared_ptr<std::byte> block = aligned_block(bytes);
  std::memset(block.get(), 0, static_cast<size_t>(round_up(bytes)));
  return block;
}

// The source and destination of a step that could run in place; nullptr when there are none, or
// when another argument also reads the source.
std::pair<Argument*, Argument*> ends_of(Step& step) {
  Argument* from = nullptr;
  Argument* to = nullptr;
  if (step.loop) {
    from = &step.arguments.front();
    to = &step.arguments.back();
  }
  for (Argument& argument : step.arguments) {
    if (!step.loop && argument.kind == DNNL_ARG_SRC) from = &argument;
    if (!step.loop && argument.kind == DNNL_ARG_DST) to = &argument;
  }
  if (from == nullptr || to == nullptr) return {nullptr, nullptr};
  for (const Argument& argument : step.arguments)
    if (&argument != from && argument.place.buffer == from->place.buffer) return {nullptr, nullptr};
  return {from, to};
}

// Lets steps write over their source when nothing reads it later and both fill separate buffers.
void write_in_place(std::vector<Step>& steps, const std::vector<Buffer>& buffers,
                    std::vector<ArenaBuffer>& uses) {
  const auto is_whole = [&](const Place& place) {
    return place.buffer >= 0 && place.offset == 0 &&
           buffers[static_cast<size_t>(place.buffer)].kind == BufferKind::kArena;
  };
  for (size_t s = 0; s < steps.size(); ++s) {
    if (!steps[s].can_be_in_place) continue;
    const auto [from, to] = ends_of(steps[s]);
    if (from == nullptr || !is_whole(from->place) || !is_whole(to->place)) continue;
    const int source = from->place.buffer, target = to->place.buffer;
    ArenaBuffer& source_use = uses[static_cast<size_t>(source)];
    ArenaBuffer& target_use = uses[static_cast<size_t>(target)];
    if (buffers[static_cast<size_t>(source)].bytes != buffers[static_cast<size_t>(target)].bytes)
      continue;
    if (source_use.last != static_cast<int>(s) || target_use.first != static_cast<int>(s)) continue;
    for (size_t later = s; later < steps.size(); ++later)
      for (Argument& argument : steps[later].arguments)
        if (argument.place.buffer == target) argument.place.buffer = source;
    source_use.last = target_use.last;
    target_use = {0, -1, -1};
  }
}

}  // namespace

OneDnnSegment::OneDnnSegment(SegmentBuilder& builder, int threads)
    : threads_(threads), stream_(cpu_engine()) {
  const std::vector<Buffer>& buffers = builder.buffers();
  for (Step& step : builder.steps())
    for (Argument& argument : step.arguments) argument.place = builder.resolve(argument.place);
  std::vector<ArenaBuffer> arena(buffers.size());
  for (size_t i = 0; i < buffers.size(); ++i) arena[i] = {0, -1, -1};
  int64_t scratch_bytes = 0;
  for (size_t s = 0; s < builder.steps().size(); ++s) {
    scratch_bytes = std::max(scratch_bytes, builder.steps()[s].scratch_bytes);
    for (const Argument& argument : builder.steps()[s].arguments) {
      if (argument.place.buffer < 0) continue;
      ArenaBuffer& use = arena[static_cast<size_t>(argument.place.buffer)];
      if (use.first < 0)
        use = {static_cast<size_t>(
                   round_up(buffers[static_cast<size_t>(argument.place.buffer)].bytes)),
               static_cast<int>(s), static_cast<int>(s)};
      use.last = static_cast<int>(s);
    }
  }
  write_in_place(builder.steps(), buffers, arena);
  std::vector<ArenaBuffer> planned;
  std::vector<size_t> planned_index;
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].kind != BufferKind::kArena || arena[i].first < 0) continue;
    planned.push_back(arena[i]);
    planned_index.push_back(i);
  }
  const ArenaPlan plan = plan_arena(planned);
  arena_ = zeroed_block(static_cast<int64_t>(plan.bytes));
  scratch_ = zeroed_block(scratch_bytes);
  base_.assign(buffers.size(), nullptr);
  for (size_t i = 0; i < planned.size(); ++i)
    base_[planned_index[i]] = arena_.get() + plan.offsets[i];
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].kind != BufferKind::kConstant) continue;
    base_[i] = static_cast<std::byte*>(buffers[i].constant.get());
    constants_.push_back(buffers[i].constant);
  }
  for (Step& step : builder.steps()) add_step(step, buffers);
  if (!builder.saturation().ops().empty())
    warnings_.push_back(saturation_warning(builder.saturation().ops()));
  const std::set<std::string>& without_bfloat16 = builder.without_bfloat16();
  if (!without_bfloat16.empty())
    warnings_.push_back({"computed in float32, as this CPU has no AVX512-BF16",
                         {without_bfloat16.begin(), without_bfloat16.end()}});
}

void OneDnnSegment::add_step(Step& step, const std::vector<Buffer>& buffers) {
  Call call;
  call.first_argument = step.loop ? addresses_.size() : arguments_.size();
  call.argument_count = step.arguments.size();
  call.primitive = step.primitive;
  call.loop = step.loop;
  for (const Argument& argument : step.arguments) {
    const bool is_scratch = argument.place.buffer < 0;
    std::byte* base =
        is_scratch ? scratch_.get() : base_[static_cast<size_t>(argument.place.buffer)];
    std::byte* address = base == nullptr ? nullptr : base + argument.place.offset;
    const BufferKind kind =
        is_scratch ? BufferKind::kArena : buffers[static_cast<size_t>(argument.place.buffer)].kind;
    if (kind == BufferKind::kInput || kind == BufferKind::kOutput) {
      Patch patch{kind == BufferKind::kInput,
                  static_cast<size_t>(buffers[static_cast<size_t>(argument.place.buffer)].external),
                  argument.place.offset, nullptr, 0};
      if (step.loop) {
        patch.address = addresses_.size();
      } else {
        memories_.emplace_back(argument.desc, cpu_engine(), nullptr);
        patch.memory = memories_.back().get();
      }
      patches_.push_back(patch);
    } else if (!step.loop) {
      memories_.emplace_back(argument.desc, cpu_engine(), address);
    }
    if (step.loop) {
      addresses_.push_back(address);
    } else {
      arguments_.push_back({argument.kind, memories_.back().get()});
    }
  }
  calls_.push_back(std::move(call));
  KernelReport report{{}, step.what, step.kernel, step.layout, step.post_ops};
  for (const ProgramOp* op : step.ops) report.ops.push_back(op->name);
  kernels_.push_back(std::move(report));
}

void OneDnnSegment::time_kernels(bool on) {
  is_timed_ = on;
  for (KernelReport& report : kernels_) report.seconds = 0;
}

void OneDnnSegment::execute(const Call& call) {
  if (call.loop) return call.loop(addresses_.data() + call.first_argument);
  dnnl::error::wrap_c_api(dnnl_primitive_execute(call.primitive.get(), stream_.get(),
                                                 static_cast<int>(call.argument_count),
                                                 arguments_.data() + call.first_argument),
                          "oneDNN did not run a primitive");
}

void OneDnnSegment::run(std::span<const Tensor> inputs, std::span<Tensor> outputs) {
  const ThreadCount threads(threads_);
  for (const Patch& patch : patches_) {
    const Tensor& tensor = patch.is_input ? inputs[patch.external] : outputs[patch.external];
    std::byte* address = tensor.raw() + patch.offset;
    if (patch.memory == nullptr) {
      addresses_[patch.address] = address;
    } else {
      dnnl::error::wrap_c_api(dnnl_memory_set_data_handle(patch.memory, address),
                              "oneDNN refused a data handle");
    }
  }
  using Clock = std::chrono::steady_clock;
  for (size_t i = 0; i < calls_.size(); ++i) {
    if (!is_timed_) {
      execute(calls_[i]);
      continue;
    }
    const Clock::time_point start = Clock::now();
    execute(calls_[i]);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    kernels_[i].seconds =
        kernels_[i].seconds == 0 ? seconds : std::min(kernels_[i].seconds, seconds);
  }
  dnnl::error::wrap_c_api(dnnl_stream_wait(stream_.get()), "oneDNN did not finish");
}

}  // namespace octet::onednn
