// Runs cells in child processes, so that a crash or a hang ends one cell.
#include "backends/conformance/conformance.h"

#include <csignal>
#include <cstring>
#include <map>
#include <regex>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "backends/registry.h"
#include "core/base/cpus.h"
#include "core/base/error.h"
#include "core/base/json_text.h"

namespace octet::conformance {
namespace {

constexpr size_t kQuickStep = 8;

// What a child process tells its parent of a cell, which knows the name and the kind.
nlohmann::json to_json(const CellResult& r) {
  return {{"outcome", r.outcome}, {"difference", r.greatest}, {"detail", r.detail},
          {"program", r.program}, {"seconds", r.seconds},     {"left_float", r.left_float}};
}

void read_json(const nlohmann::json& json, CellResult& r) {
  r.outcome = json.at("outcome");
  r.greatest = json.at("difference").is_number() ? json.at("difference").get<double>()
                                                 : std::numeric_limits<double>::infinity();
  r.detail = json.at("detail");
  r.program = json.at("program");
  r.seconds = json.at("seconds");
  r.left_float = json.at("left_float");
}

// A child process that runs every `step`-th cell from `next` on and writes a line for each.
class Worker {
 public:
  Worker(const std::vector<Job>& jobs, double timeout, size_t first, size_t step)
      : jobs_(jobs), timeout_(timeout), next_(first), step_(step) {
    start();
  }
  ~Worker() { stop(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  bool is_done() const { return next_ >= jobs_.size(); }
  int descriptor() const { return pipe_; }

  // Reads what the child has written; calls take(index, result) for each cell that ended.
  template <typename Take>
  void read(const Take& take) {
    char buffer[4096];
    const ssize_t count = ::read(pipe_, buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) return;
    if (count <= 0) return crash(take, "");
    text_.append(buffer, static_cast<size_t>(count));
    for (size_t end; (end = text_.find('\n')) != std::string::npos; text_.erase(0, end + 1)) {
      CellResult result = empty_result();
      read_json(parse_json<nlohmann::json>(text_.substr(0, end)), result);
      finish(take, std::move(result));
    }
  }

  template <typename Take>
  void check_time(const Take& take) {
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - started_;
    if (!is_done() && taken.count() > timeout_)
      crash(take, fmt::format("no result in {} s", timeout_));
  }

 private:
  CellResult empty_result() const {
    CellResult result;
    result.name = jobs_[next_].name;
    result.kind = jobs_[next_].kind;
    return result;
  }

  template <typename Take>
  void finish(const Take& take, CellResult result) {
    const size_t index = next_;
    next_ += step_;
    started_ = std::chrono::steady_clock::now();
    take(index, std::move(result));
  }

  template <typename Take>
  void crash(const Take& take, std::string why) {
    const int status = stop();
    CellResult result = empty_result();
    result.outcome = Outcome::kCrashed;
    result.detail = !why.empty() ? std::move(why)
                    : WIFSIGNALED(status)
                        ? fmt::format("ended by {}", ::strsignal(WTERMSIG(status)))
                        : fmt::format("exit {}", WEXITSTATUS(status));
    try {
      result.program = jobs_[next_].text();
    } catch (const std::exception& error) {
      result.program = error.what();
    }
    finish(take, std::move(result));
    if (!is_done()) start();
  }

  void start() {
    if (is_done()) return;
    int ends[2];
    if (::pipe(ends) != 0) throw Error("conformance", "", std::strerror(errno));
    started_ = std::chrono::steady_clock::now();
    text_.clear();
    child_ = ::fork();
    if (child_ < 0) throw Error("conformance", "fork", std::strerror(errno));
    if (child_ == 0) {
      ::close(ends[0]);
      for (size_t i = next_; i < jobs_.size(); i += step_) {
        const std::string line = dump_json(to_json(jobs_[i].run()), -1, false,
                                           nlohmann::json::error_handler_t::replace) +
                                 "\n";
        for (size_t at = 0; at < line.size();) {
          const ssize_t count = ::write(ends[1], line.data() + at, line.size() - at);
          if (count < 0 && errno != EINTR) ::_exit(1);
          at += static_cast<size_t>(std::max<ssize_t>(count, 0));
        }
      }
      ::_exit(0);
    }
    ::close(ends[1]);
    pipe_ = ends[0];
  }

  // Ends the child; returns its status.
  int stop() {
    if (child_ <= 0) return 0;
    int status = 0;
    // it has ended, is killed for its time, or is not needed any more
    if (::waitpid(child_, &status, WNOHANG) == 0) {
      ::usleep(10000);
      if (::waitpid(child_, &status, WNOHANG) == 0) {
        ::kill(child_, SIGKILL);
        ::waitpid(child_, &status, 0);
      }
    }
    ::close(pipe_);
    child_ = 0;
    return status;
  }

  const std::vector<Job>& jobs_;
  double timeout_;
  size_t next_, step_;
  pid_t child_ = 0;
  int pipe_ = -1;
  std::string text_;
  std::chrono::steady_clock::time_point started_;
};

std::vector<Job> jobs_of(const std::vector<Cell>& cells, const ConformanceOptions& options) {
  std::vector<Job> jobs;
  for (const Cell& cell : cells)
    jobs.push_back({cell.name, cell.kind, [&] { return run_cell(cell, options); },
                    [&] { return to_text(cell.make(options.seed).program); }});
  return jobs;
}

}  // namespace

std::string name_of(Outcome outcome) {
  constexpr const char* kNames[] = {"exact", "ties",    "within", "refused",
                                    "wrong", "crashed", "passed"};
  return kNames[static_cast<size_t>(outcome)];
}

std::vector<Job> chosen(std::vector<Job> jobs, const ConformanceOptions& options) {
  std::optional<std::regex> filter;
  try {
    filter.emplace(options.filter);
  } catch (const std::regex_error&) {
    throw Error("conformance", options.filter,
                "not a regular expression; name an op or a cell, such as conv/odd");
  }
  std::map<std::string, size_t> of_kind;
  std::erase_if(jobs, [&](const Job& job) {
    const bool is_skipped = options.is_quick && of_kind[job.kind]++ % kQuickStep != 0;
    return is_skipped || !std::regex_search(job.name, *filter);
  });
  if (jobs.empty())
    throw Error("conformance", options.filter,
                options.quantizer.empty()
                    ? "no cell has such a name; a name is op/shape/form, such as conv/odd/i8"
                    : "no cell has such a name; a name is kind/graph, such as conv/odd");
  return jobs;
}

std::vector<CellResult> run_conformance(const ConformanceOptions& options,
                                        const std::function<void(const CellResult&)>& done,
                                        const std::vector<Job>& more) {
  make_supports(options.backend);  // throws for an unknown name
  const std::vector<Cell> cells = conformance_cells();
  std::vector<Job> jobs = jobs_of(cells, options);
  jobs.insert(jobs.end(), more.begin(), more.end());
  return run_jobs(chosen(std::move(jobs), options), options.timeout, done);
}

std::vector<CellResult> run_cells(const std::vector<Cell>& cells, const ConformanceOptions& options,
                                  const std::function<void(const CellResult&)>& done) {
  return run_jobs(jobs_of(cells, options), options.timeout, done);
}

std::vector<CellResult> run_jobs(const std::vector<Job>& jobs, double timeout,
                                 const std::function<void(const CellResult&)>& done) {
  std::vector<CellResult> results(jobs.size());
  const auto take = [&](size_t index, CellResult result) {
    results[index] = std::move(result);
    if (done) done(results[index]);
  };
  const size_t count = std::min(jobs.size(), static_cast<size_t>(std::max(default_threads(), 1)));
  std::vector<std::unique_ptr<Worker>> workers;
  for (size_t i = 0; i < count; ++i)
    workers.push_back(std::make_unique<Worker>(jobs, timeout, i, count));
  while (true) {
    std::erase_if(workers, [](const std::unique_ptr<Worker>& worker) { return worker->is_done(); });
    if (workers.empty()) return results;
    std::vector<pollfd> waiting;
    for (const std::unique_ptr<Worker>& worker : workers)
      waiting.push_back({worker->descriptor(), POLLIN, 0});
    ::poll(waiting.data(), waiting.size(), 200);
    for (size_t i = 0; i < workers.size(); ++i) {
      if (waiting[i].revents != 0) workers[i]->read(take);
      workers[i]->check_time(take);
    }
  }
}

}  // namespace octet::conformance
