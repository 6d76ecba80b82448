// Implements octet bench, which measures latency, load time and peak memory of a program.
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <exception>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/base/cpus.h"
#include "core/base/error.h"
#include "core/base/json_text.h"
#include "core/interpreter/aten_bridge.h"
#include "core/pt2/tensor_file.h"
#include "lowering/program/backend.h"
#include "tools/cli/commands/command.h"
#include "tools/cli/commands/language_model.h"
#include "tools/cli/commands/runnable.h"
#include "tools/cli/common/library.h"
#include "tools/cli/common/lowered_program.h"
#include "tools/cli/common/messages.h"

namespace octet {
namespace {

double total_seconds(const std::vector<KernelReport>& kernels) {
  double total = 0;
  for (const KernelReport& kernel : kernels) total += kernel.seconds;
  return total > 0 ? total : 1;
}

// "(2)" for the second note; "" for none.
std::string mark_of(const std::string& note, std::vector<std::string>& notes) {
  if (note.empty()) return {};
  const std::vector<std::string>::iterator known = std::find(notes.begin(), notes.end(), note);
  const size_t number = static_cast<size_t>(known - notes.begin()) + 1;
  if (known == notes.end()) notes.push_back(note);
  return fmt::format("({})", number);
}

// One line for each call in the order of the run, with the time of its fastest run. Notes follow
// the table, each once; calls refer to them by number.
std::string kernels_to_table(const std::vector<KernelReport>& kernels) {
  const double total = total_seconds(kernels);
  std::vector<std::string> notes;
  std::string text = fmt::format("{:>6} {:>9}  {:<24} {:<32} {:<26} {:<4} ops\n", "share", "us",
                                 "what", "kernel", "layout", "note");
  for (const KernelReport& kernel : kernels) {
    const std::string what = kernel.post_ops.empty()
                                 ? kernel.what
                                 : fmt::format("{} + {}", kernel.what, kernel.post_ops);
    const bool is_timed = kernel.seconds > 0;
    text += fmt::format("{:>6} {:>9}  {:<24} {:<32} {:<26} {:<4} {}\n",
                        is_timed ? fmt::format("{:.1f}%", 100 * kernel.seconds / total) : "-",
                        is_timed ? fmt::format("{:.1f}", 1e6 * kernel.seconds) : "-", what,
                        kernel.kernel, kernel.layout, mark_of(kernel.note, notes),
                        fmt::join(kernel.ops, " "));
  }
  if (std::any_of(kernels.begin(), kernels.end(),
                  [](const KernelReport& k) { return k.seconds == 0; }))
    text += "\n- the backend does not time this kernel\n";
  for (size_t i = 0; i < notes.size(); ++i)
    text += fmt::format("{}({}) {}\n", i == 0 ? "\n" : "", i + 1, notes[i]);
  return text;
}

// Null for a kernel that its backend does not time.
nlohmann::ordered_json or_null(double seconds, double factor) {
  return seconds > 0 ? nlohmann::ordered_json(seconds * factor) : nlohmann::ordered_json(nullptr);
}

// {"kernels": [{"share": 0.31, "us": 12.5, "what": ..., "kernel": ..., "layout": ..., "post_ops":
// ..., "ops": [...], "note": ...}]}, on one line.
std::string kernels_to_json(const std::vector<KernelReport>& kernels) {
  const double total = total_seconds(kernels);
  nlohmann::ordered_json calls = nlohmann::ordered_json::array();
  for (const KernelReport& kernel : kernels)
    calls.push_back({{"share", or_null(kernel.seconds, 1 / total)},
                     {"us", or_null(kernel.seconds, 1e6)},
                     {"what", kernel.what},
                     {"kernel", kernel.kernel},
                     {"layout", kernel.layout},
                     {"post_ops", kernel.post_ops},
                     {"ops", kernel.ops},
                     {"note", kernel.note}});
  return dump_json(nlohmann::ordered_json{{"kernels", std::move(calls)}}, -1, true,
                   nlohmann::ordered_json::error_handler_t::replace);
}

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// Runs for `seconds` and at least 20 runs, but at most ten times as long and 2000 runs.
std::vector<double> measure(Runnable& program, const std::vector<c10::IValue>& inputs,
                            double seconds) {
  constexpr int kWarmUps = 5, kLeastRuns = 20;
  const double enough = 1e3 * seconds, most = 10 * enough;
  for (int i = 0; i < kWarmUps; ++i) program.run(inputs);
  std::vector<double> times;
  const Clock::time_point start = Clock::now();
  for (double total = 0; times.size() < 2000 && (times.empty() || total < most) &&
                         (total < enough || times.size() < kLeastRuns);
       total = milliseconds_since(start)) {
    const Clock::time_point before = Clock::now();
    program.run(inputs);
    times.push_back(milliseconds_since(before));
  }
  std::sort(times.begin(), times.end());
  return times;
}

// Runs per second of all programs together, with one thread each, over `seconds`.
double throughput(std::vector<std::unique_ptr<Runnable>>& programs,
                  const std::vector<c10::IValue>& inputs, double seconds) {
  std::atomic<size_t> runs{0};
  std::atomic<bool> stops{false};
  std::vector<std::exception_ptr> failures(programs.size());
  const auto run = [&](size_t i) {
    try {
      for (; !stops; ++runs) programs[i]->run(inputs);
    } catch (...) {
      failures[i] = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  const Clock::time_point start = Clock::now();
  std::exception_ptr no_thread;
  try {
    for (size_t i = 0; i < programs.size(); ++i) threads.emplace_back(run, i);
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  } catch (...) {  // threads that started must end first
    no_thread = std::current_exception();
  }
  stops = true;
  for (std::thread& thread : threads) thread.join();
  if (no_thread) std::rethrow_exception(no_thread);
  const double elapsed = milliseconds_since(start) / 1e3;
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
  return static_cast<double>(runs) / elapsed;
}

// "f32[1, 3, 224, 224], i64[1, 8]": the sizes of the given inputs, or of generated ones with the
// sizes of the example inputs.
std::string sizes_of(const std::vector<c10::IValue>& inputs) {
  std::vector<std::string> texts;
  for (const c10::IValue& input : inputs)
    if (input.isTensor() && input.toTensor().defined())
      texts.push_back(describe(from_aten(input.toTensor())));
  return fmt::format("{}", fmt::join(texts, ", "));
}

// "2 threads", or "1 of 2 threads" if fewer are used than requested.
std::string threads_text(int wanted, int used) {
  const std::string text = fmt::format("{} thread{}", wanted, wanted == 1 ? "" : "s");
  return used == wanted ? text : fmt::format("{} of {}", used, text);
}

double peak_rss_mb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024.0;
}

double gigabytes_per_second(size_t bytes, double milliseconds) {
  return static_cast<double>(bytes) / milliseconds / 1e6;
}

// ", reads 85.1 MB of constants, 13.3 GB/s", or "" for none.
std::string bandwidth_text(size_t bytes, double milliseconds) {
  if (bytes == 0) return {};
  return fmt::format(", reads {:.1f} MB of constants, {:.1f} GB/s",
                     static_cast<double>(bytes) / 1e6, gigabytes_per_second(bytes, milliseconds));
}

struct BenchRequest {
  std::string file, inputs;
  SessionOptions session = {.threads = 0};
  int streams = 1;
  double seconds = 1;
  std::optional<size_t> prefill, decode;
  bool json = false, explain = false;
  std::vector<std::string> libraries;
};

Options options_of(BenchRequest& request) {
  return joined({
      {
          program_option(request.file),
          Option{"inputs", &request.inputs,
                 "torch.save of a tuple of inputs; made up by default (integers are 0)"},
          Option{
              "streams", &request.streams,
              "Measure throughput: run this many copies of the program at the same time, each on "
              "--threads threads, by default on its share of the CPUs"}
              .between(1, 1024),
          Option{"seconds", &request.seconds, "How long to measure"}.between(0.001, 3600),
          Option{"prefill", &request.prefill,
                 "Measure a language model: the time of a prompt of this many tokens (.octet)"}
              .between(1, 1 << 20)
              .excludes("inputs"),
          Option{"decode", &request.decode,
                 "Measure a language model: the time of each of this many tokens, one at a time, "
                 "after the prompt (.octet)"}
              .between(1, 1 << 20)
              .excludes("inputs"),
          Option{"json", &request.json, "Print one JSON object"},
          Option{"explain", &request.explain,
                 "Print each call's kernel, layout, share of the time, and why it is slower than "
                 "it could be (.octet); of the last token with --decode, else of the prompt"},
      },
      session_options(request.session),
      library_options(request.libraries),
  });
}

void explain_kernels(const BenchRequest& request, Runnable& program,
                     const std::vector<c10::IValue>& inputs) {
  const std::vector<KernelReport> kernels = program.explain(inputs);
  if (request.json) return print_json(kernels_to_json(kernels) + "\n");
  print_text(kernels_to_table(kernels));
  const std::vector<double> times = measure(program, inputs, std::min(request.seconds, 0.2));
  const double median = times[times.size() / 2];
  log_line(fmt::format("median {:.3f} ms on {}{}; inputs {}", median,
                       threads_text(request.session.threads, program.threads()),
                       bandwidth_text(program.constant_bytes(), median), sizes_of(inputs)));
}

// Times a prompt, then tokens one at a time.
void measure_language_model(const BenchRequest& request) {
  const Clock::time_point start = Clock::now();
  LanguageModel model(request.file, request.session);
  const double load_ms = milliseconds_since(start);
  const DecodeTimes times =
      measure_decoding(model.decoder, request.prefill.value_or(0), request.decode.value_or(0));
  model.print_warnings();
  const int threads = request.session.threads, used = model.session.threads();
  nlohmann::ordered_json json;
  std::string text;
  if (request.prefill) {
    json = {{"prefill_tokens", *request.prefill}, {"prefill_ms", times.prefill}};
    text = fmt::format("prompt of {} tokens {:.1f} ms, {:.0f} tokens/s; ", *request.prefill,
                       times.prefill, 1e3 * static_cast<double>(*request.prefill) / times.prefill);
  }
  if (request.decode) {
    const double median = times.tokens[times.tokens.size() / 2];
    const double p90 = times.tokens[times.tokens.size() * 9 / 10];
    const size_t bytes = constant_bytes(model.session.bound_program());
    json.update({{"decode_tokens", *request.decode},
                 {"median_ms", median},
                 {"p90_ms", p90},
                 {"tokens_per_second", 1e3 / median},
                 {"constant_bytes", bytes},
                 {"gb_per_second", gigabytes_per_second(bytes, median)}});
    text += fmt::format("each of {} tokens median {:.3f} ms, p90 {:.3f} ms, {:.1f} tokens/s{}; ",
                        *request.decode, median, p90, 1e3 / median, bandwidth_text(bytes, median));
  }
  json.update({{"threads", threads},
               {"threads_used", used},
               {"load_ms", load_ms},
               {"peak_rss_mb", peak_rss_mb()}});
  text += fmt::format("on {}; loaded in {:.1f} ms, peak memory {:.0f} MB",
                      threads_text(threads, used), load_ms, peak_rss_mb());
  if (!request.explain) return fmt::print("{}\n", request.json ? dump_json(json) : text);
  const std::vector<KernelReport> kernels =
      explain_decoding(model, request.prefill.value_or(0), request.decode.value_or(0));
  if (request.json) return print_json(kernels_to_json(kernels) + "\n");
  print_text(kernels_to_table(kernels));
  log_line(text);
}

void measure_throughput(const BenchRequest& request, std::unique_ptr<Runnable> program,
                        const std::vector<c10::IValue>& inputs) {
  std::vector<std::unique_ptr<Runnable>> programs;
  for (int i = 1; i < request.streams; ++i) programs.push_back(program->duplicate());
  programs.push_back(std::move(program));
  for (const std::unique_ptr<Runnable>& each : programs) each->run(inputs);
  const double rate = throughput(programs, inputs, request.seconds);
  const int threads = request.session.threads, used = programs.front()->threads();
  const nlohmann::ordered_json result = {{"runs_per_second", rate},
                                         {"streams", request.streams},
                                         {"threads", threads},
                                         {"threads_used", used},
                                         {"peak_rss_mb", peak_rss_mb()}};
  fmt::print("{}\n",
             request.json
                 ? dump_json(result)
                 : fmt::format("{:.1f} runs per second in {} streams of {}, peak memory {:.0f} MB",
                               rate, request.streams, threads_text(threads, used), peak_rss_mb()));
}

void measure_latency(const BenchRequest& request, Runnable& program,
                     const std::vector<c10::IValue>& inputs, double load_ms) {
  const std::vector<double> times = measure(program, inputs, request.seconds);
  const double median = times[times.size() / 2];
  const double p90 = times[std::min(times.size() - 1, times.size() * 9 / 10)];
  const int threads = request.session.threads, used = program.threads();
  if (request.json) {
    const nlohmann::ordered_json result = {{"median_ms", median},         {"p90_ms", p90},
                                           {"runs", times.size()},        {"threads", threads},
                                           {"threads_used", used},        {"load_ms", load_ms},
                                           {"peak_rss_mb", peak_rss_mb()}};
    fmt::print("{}\n", dump_json(result));
  } else {
    fmt::print(
        "median {:.3f} ms, p90 {:.3f} ms over {} runs on {}; loaded in {:.1f} ms, peak memory "
        "{:.0f} MB; inputs {}\n",
        median, p90, times.size(), threads_text(threads, used), load_ms, peak_rss_mb(),
        sizes_of(inputs));
  }
}

void bench(BenchRequest& request) {
  load_libraries(request.libraries);
  int& threads = request.session.threads;
  if (threads == 0) threads = default_threads(request.streams);
  if (request.prefill || request.decode) {
    if (request.streams > 1)
      throw Error("bench", "streams",
                  "runs copies on --inputs, not --prefill and --decode; leave those out");
    return measure_language_model(request);
  }
  const Clock::time_point start = Clock::now();
  std::unique_ptr<Runnable> program = load_runnable(request.file, request.session);
  const double load_ms = milliseconds_since(start);
  const std::vector<c10::IValue> inputs = request.inputs.empty()
                                              ? program->example_inputs()
                                              : read_inputs(request.inputs, program->input_names());
  if (request.explain)
    explain_kernels(request, *program, inputs);
  else if (request.streams > 1)
    measure_throughput(request, std::move(program), inputs);
  else
    measure_latency(request, *program, inputs, load_ms);
}

}  // namespace

void add_bench_command(CLI::App& app) {
  add_command<BenchRequest>(app, "bench", "Measure the latency of a .pt2 or .octet program", bench);
}

}  // namespace octet
