#include "backends/runtime/thread_choice.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "lowering/program/program.h"

namespace octet {
namespace {

constexpr double kBetweenLooks = 0.02;  // seconds
// The CPUs are busy for a thread that waits for more than this share of its time, and this long.
constexpr double kBusyShare = 0.2, kLeastWait = 0.002;
// A run is late when it takes this multiple of the shortest run.
constexpr double kLate = 3;
// CPUs are taken if they are at each of these looks, at this interval.
constexpr int kFirstLooks = 4;
constexpr std::chrono::milliseconds kBetweenFirstLooks{1};
constexpr double kLeastPrice = 0.01, kShortestPeriod = 0.1, kLongestPeriod = 10;

bool is_busy(const CpuTime& time) {
  return time.waited > kLeastWait && time.waited > kBusyShare * (time.waited + time.ran);
}

}  // namespace

// Measured with two threads on AVX512-VNNI, which gain from about a million multiply-accumulates
// on; other CPUs take up to four times as long for each. An element of another op counts as 16.
bool is_too_small_for_threads(const Program& program) {
  constexpr int64_t kLeastWork = 1 << 18, kWorkOfElement = 16;
  if (!program.symbols.empty() || !program.bodies.empty()) return false;
  int64_t work = 0;
  bool is_counted = false;  // by `octet lower`
  for (const ProgramOp& op : program.ops) {
    is_counted = is_counted || op.macs > 0;
    for (const int output : op.outputs) {
      const int64_t elements = program.tensor(output).numel();
      if (op.macs >= kLeastWork || elements >= kLeastWork) return false;
      work += std::max(op.macs, kWorkOfElement * elements);
      if (work >= kLeastWork) return false;
    }
  }
  return is_counted;
}

bool are_cpus_taken(int threads) {
  return threads_running_elsewhere() + threads > ::sysconf(_SC_NPROCESSORS_ONLN);
}

ThreadChoice::ThreadChoice(const CpuTime& cpu, std::function<bool()> are_taken)
    : are_taken_(std::move(are_taken)),
      uses_threads_(!is_busy(cpu)),
      price_(kLeastPrice),
      before_(cpu),
      period_(kShortestPeriod) {
  if (!are_taken_) return;
  for (int looks = 1; uses_threads_ && are_taken_(); ++looks)
    if (looks == kFirstLooks)
      uses_threads_ = false;
    else
      std::this_thread::sleep_for(kBetweenFirstLooks);
}

void ThreadChoice::set_price(double seconds) { price_ = std::max(seconds, kLeastPrice); }

void ThreadChoice::look(double now, const void* thread, const CpuTime& cpu) {
  const CpuTime passed = {cpu.ran - before_.ran, cpu.waited - before_.waited};
  const bool is_same = thread_ == thread;
  if (thread_ == nullptr) until_ = std::max(until_, now + period_);
  next_look_ = now + kBetweenLooks;
  thread_ = thread;
  before_ = cpu;
  if (!is_same) return;
  if (!uses_threads_) {
    if (now < until_) return;
    const bool waits = is_busy(passed);
    // Threads help even if other processes hold the CPUs but yield them, so try threads again after
    // the longest period.
    const bool is_taken =
        !waits && period_ < kLongestPeriod && are_taken_ != nullptr && are_taken_();
    if (is_taken) period_ = std::min(2 * period_, kLongestPeriod);
    if (waits || is_taken)
      until_ = now + period_;
    else
      return_to_threads(now);
  } else if (is_busy(passed)) {
    lost_ += passed.waited;
    if (lost_ > price_ && !alone_is_slower()) leave_threads(now);
  }
}

void ThreadChoice::note_run(double now, double taken) {
  Runs& runs = uses_threads_ ? late_ : alone_;
  runs.seconds += taken;
  ++runs.count;
  if (!uses_threads_) return;
  best_ = best_ == 0 ? taken : std::min(best_, taken);
  lost_ += taken - kLate * best_;
  if (lost_ > price_ && !alone_is_slower()) return leave_threads(now);
  if (lost_ > 0) return;
  lost_ = 0;
  late_ = {};
}

void ThreadChoice::forget_runs() {
  best_ = lost_ = 0;
  late_ = alone_ = {};
}

// Whether runs on one thread took longer than runs on all threads since these became late. Late
// runs alone prove nothing, since run times may depend on the data.
bool ThreadChoice::alone_is_slower() const {
  return alone_.count > 0 && late_.count > 0 && alone_.mean() > late_.mean();
}

// Doubles the period each time, unless the threads did well for long.
void ThreadChoice::leave_threads(double now) {
  period_ = now - since_ > 10 * period_ ? kShortestPeriod : std::min(2 * period_, kLongestPeriod);
  period_ = std::max(period_, 10 * price_);
  uses_threads_ = false;
  until_ = now + period_;
  alone_ = {};
}

void ThreadChoice::return_to_threads(double now) {
  uses_threads_ = true;
  since_ = now;
  lost_ = 0;
  late_ = {};
}

}  // namespace octet
