// Implements Processes with MPI. Waiting functions poll and sleep, because MPI's waiting would
// occupy a core that another process calibrates on.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <thread>

#include <fmt/format.h>
#include <mpi.h>

#include "core/base/error.h"
#include "tools/cli/common/signals.h"
#include "tools/cli/processes/processes.h"

namespace octet {
namespace {

constexpr int kAlarm = 1;  // empty message: the sender's work failed
constexpr int kText = 2;

enum class End : int64_t { kDone, kFailed, kInVain };

// A row for each overload of sum, min and max.
struct Kind {
  MPI_Datatype type;
  MPI_Op op;
  size_t size;  // bytes
};
enum KindIndex : int { kSumDouble, kSumFloat, kSumInt64, kMinFloat, kMaxDouble };

Kind kind_of(int64_t index) {
  switch (index) {
    case kSumDouble: return {MPI_DOUBLE, MPI_SUM, sizeof(double)};
    case kSumFloat: return {MPI_FLOAT, MPI_SUM, sizeof(float)};
    case kSumInt64: return {MPI_INT64_T, MPI_SUM, sizeof(int64_t)};
    case kMinFloat: return {MPI_FLOAT, MPI_MIN, sizeof(float)};
    default: return {MPI_DOUBLE, MPI_MAX, sizeof(double)};
  }
}

// The outcome that each process sends to all others at the end.
struct Outcome {
  End end = End::kDone;
  int64_t length = 0;  // length of the text
  // number of reductions that it began, and kind and size of the last one
  int64_t begun = 0;
  int64_t kind = 0;
  int64_t count = 0;
};

void wait(MPI_Request request) {
  constexpr std::chrono::milliseconds kPause(1);
  int is_done = 0;
  while (MPI_Test(&request, &is_done, MPI_STATUS_IGNORE), is_done == 0)
    std::this_thread::sleep_for(kPause);
}

End run(const std::function<std::string()>& work, std::string& text) {
  try {
    text = work();
    if (text.size() > static_cast<size_t>(std::numeric_limits<int>::max()))
      throw Error("mpi", "state",
                  fmt::format("too large to be sent, got {} bytes, want less than 2 GB; calibrate "
                              "parts by hand (--state)",
                              text.size()));
    return End::kDone;
  } catch (const OtherFailed&) {
    return End::kInVain;
  } catch (const std::exception& error) {
    text = error.what();
    return End::kFailed;
  }
}

std::vector<Outcome> exchange(const Outcome& own, size_t count) {
  std::vector<Outcome> all(count);
  MPI_Request request;
  MPI_Iallgather(&own, sizeof own, MPI_BYTE, all.data(), sizeof own, MPI_BYTE, MPI_COMM_WORLD,
                 &request);
  wait(request);
  return all;
}

void send(const std::string& text, int rank) {
  MPI_Request request;
  MPI_Isend(text.data(), static_cast<int>(text.size()), MPI_BYTE, rank, kText, MPI_COMM_WORLD,
            &request);
  wait(request);
}

std::string receive(size_t rank, int64_t length) {
  std::string text(static_cast<size_t>(length), '\0');
  MPI_Request request;
  MPI_Irecv(text.data(), static_cast<int>(length), MPI_BYTE, static_cast<int>(rank), kText,
            MPI_COMM_WORLD, &request);
  wait(request);
  return text;
}

}  // namespace

// Reductions use a separate communicator, so that an unfinished one cannot interfere with the
// messages at the end.
struct Processes::Joined {
  MPI_Comm reductions = MPI_COMM_NULL;
  size_t alarms = 0;  // alarms that this process received
  int64_t begun = 0;
  int kind = 0;
  size_t count = 0;
  std::vector<std::byte> numbers;  // must stay valid during a reduction
  MPI_Request request = MPI_REQUEST_NULL;

  void begin(int64_t kind, size_t count);
  void complete(const std::vector<Outcome>& outcomes, size_t rank);
};

void Processes::Joined::begin(int64_t next_kind, size_t next_count) {
  kind = static_cast<int>(next_kind);
  count = next_count;
  const Kind row = kind_of(kind);
  numbers.resize(count * row.size);
  ++begun;
  MPI_Iallreduce(MPI_IN_PLACE, numbers.data(), static_cast<int>(count), row.type, row.op,
                 reductions, &request);
}

// Completes a reduction that other processes wait in. If this process failed before that reduction,
// it begins it now. No process can be ahead by more than one reduction, because a reduction ends
// only when all have begun it.
void Processes::Joined::complete(const std::vector<Outcome>& outcomes, size_t rank) {
  const Outcome& furthest = *std::ranges::max_element(
      outcomes, [](const Outcome& a, const Outcome& b) { return a.begun < b.begun; });
  if (outcomes[rank].begun < furthest.begun)
    begin(furthest.kind, static_cast<size_t>(furthest.count));
  wait(request);
}

Processes::Processes() {
  if (!is_one_of_several()) return;
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  joined_ = std::make_unique<Joined>();
  int rank = 0;
  int count = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &count);
  MPI_Comm_dup(MPI_COMM_WORLD, &joined_->reductions);
  rank_ = static_cast<size_t>(rank);
  count_ = static_cast<size_t>(count);
  if (rank_ == 0) clean_up_on_signals(true);  // mpirun ends it when another process was killed
}

Processes::~Processes() {
  if (joined_ == nullptr) return;
  MPI_Comm_free(&joined_->reductions);
  MPI_Finalize();
}

void Processes::check_others() {
  if (joined_ == nullptr) return;
  int is_there = 0;
  MPI_Iprobe(MPI_ANY_SOURCE, kAlarm, MPI_COMM_WORLD, &is_there, MPI_STATUS_IGNORE);
  if (is_there == 0) return;
  MPI_Recv(nullptr, 0, MPI_BYTE, MPI_ANY_SOURCE, kAlarm, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  ++joined_->alarms;
  throw OtherFailed();
}

// Polls often at first, because the other processes usually arrive soon.
void Processes::reduce(int kind, void* numbers, size_t count) {
  if (joined_ == nullptr || count_ == 1) return;
  constexpr size_t kMost = size_t{1} << 28;  // MPI counts in ints
  constexpr std::chrono::milliseconds kNear(2);
  constexpr std::chrono::microseconds kPause(100);
  const size_t size = kind_of(kind).size;
  std::byte* place = static_cast<std::byte*>(numbers);
  for (size_t done = 0; done < count; done += kMost, place += kMost * size) {
    const size_t part = std::min(kMost, count - done);
    joined_->numbers.assign(place, place + part * size);
    joined_->begin(kind, part);
    ++exchanges_;
    exchanged_bytes_ += part * size;
    const std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
    int is_done = 0;
    while (MPI_Test(&joined_->request, &is_done, MPI_STATUS_IGNORE), is_done == 0) {
      check_others();
      if (std::chrono::steady_clock::now() - start < kNear)
        std::this_thread::yield();
      else
        std::this_thread::sleep_for(kPause);
    }
    std::ranges::copy(joined_->numbers, place);
  }
}

void Processes::sum(std::span<double> numbers) {
  reduce(kSumDouble, numbers.data(), numbers.size());
}
void Processes::sum(std::span<float> numbers) { reduce(kSumFloat, numbers.data(), numbers.size()); }
void Processes::sum(std::span<int64_t> numbers) {
  reduce(kSumInt64, numbers.data(), numbers.size());
}
void Processes::min(std::span<float> numbers) { reduce(kMinFloat, numbers.data(), numbers.size()); }
void Processes::max(std::span<double> numbers) {
  reduce(kMaxDouble, numbers.data(), numbers.size());
}

std::vector<std::string> Processes::gather(const std::function<std::string()>& work) {
  if (joined_ == nullptr) return {work()};
  std::string text;
  End end = run(work, text);
  // other code may have converted an OtherFailed to another error
  if (end == End::kFailed && joined_->alarms > 0) end = End::kInVain;
  std::vector<MPI_Request> alarms;
  for (size_t other = 0; end == End::kFailed && other < count_; ++other)
    if (other != rank_)
      MPI_Isend(nullptr, 0, MPI_BYTE, static_cast<int>(other), kAlarm, MPI_COMM_WORLD,
                &alarms.emplace_back());
  const std::vector<Outcome> outcomes =
      exchange({end, static_cast<int64_t>(text.size()), joined_->begun, joined_->kind,
                static_cast<int64_t>(joined_->count)},
               count_);
  joined_->complete(outcomes, rank_);

  // Receives every alarm, so that no message is in transit when the processes leave.
  size_t failures = 0;
  size_t first_failure = count_;
  for (size_t i = count_; i-- > 0;) {
    if (outcomes[i].end != End::kFailed) continue;
    first_failure = i;
    failures += i != rank_;
  }
  for (; joined_->alarms < failures; ++joined_->alarms)
    MPI_Recv(nullptr, 0, MPI_BYTE, MPI_ANY_SOURCE, kAlarm, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (const MPI_Request& alarm : alarms) wait(alarm);

  const bool is_well = first_failure == count_;
  if (rank_ != 0) {
    if (is_well || first_failure == rank_) send(text, 0);
    return {};
  }
  if (!is_well) {
    if (first_failure != 0) text = receive(first_failure, outcomes[first_failure].length);
    throw std::runtime_error(fmt::format("{} (process {} of {})", text, first_failure, count_));
  }
  std::vector<std::string> texts{text};
  for (size_t i = 1; i < count_; ++i) texts.push_back(receive(i, outcomes[i].length));
  return texts;
}

}  // namespace octet
