// Processes over MPI. What waits sleeps between its looks: MPI's own waiting would take the core
// that another process calibrates on.
#include <chrono>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <thread>

#include <fmt/format.h>
#include <mpi.h>

#include "core/base/error.h"
#include "tools/processes/processes.h"

namespace octet {
namespace {

constexpr int kAlarm = 1;  // empty message: the sender's work failed
constexpr int kText = 2;

enum class End : int64_t { kDone, kFailed, kInVain };

// What every process tells every other about its end.
struct Outcome {
  End end = End::kDone;
  int64_t length = 0;  // of the text
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

Processes::Processes() {
  if (!is_one_of_several()) return;
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  has_joined_ = true;
  int rank = 0;
  int count = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &count);
  rank_ = static_cast<size_t>(rank);
  count_ = static_cast<size_t>(count);
}

Processes::~Processes() {
  if (has_joined_) MPI_Finalize();
}

void Processes::check_others() {
  if (!has_joined_) return;
  int is_there = 0;
  MPI_Iprobe(MPI_ANY_SOURCE, kAlarm, MPI_COMM_WORLD, &is_there, MPI_STATUS_IGNORE);
  if (is_there == 0) return;
  MPI_Recv(nullptr, 0, MPI_BYTE, MPI_ANY_SOURCE, kAlarm, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  ++alarms_;
  throw OtherFailed();
}

std::vector<std::string> Processes::gather(const std::function<std::string()>& work) {
  if (!has_joined_) return {work()};
  std::string text;
  const End end = run(work, text);
  std::vector<MPI_Request> alarms;
  for (size_t other = 0; end == End::kFailed && other < count_; ++other)
    if (other != rank_)
      MPI_Isend(nullptr, 0, MPI_BYTE, static_cast<int>(other), kAlarm, MPI_COMM_WORLD,
                &alarms.emplace_back());
  const std::vector<Outcome> outcomes = exchange({end, static_cast<int64_t>(text.size())}, count_);

  // Every alarm is received, so that nothing is under way when the processes leave.
  size_t failures = 0;
  size_t first_failure = count_;
  for (size_t i = count_; i-- > 0;) {
    if (outcomes[i].end != End::kFailed) continue;
    first_failure = i;
    failures += i != rank_;
  }
  for (; alarms_ < failures; ++alarms_)
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
