#include "core/passes/pass.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/passes/verify.h"
#include "core/text/text.h"

namespace octet {
namespace {

std::mutex mutex;  // for both
std::vector<std::string> wanted, ran;
thread_local int unwatched = 0;  // number of UnwatchedPasses

bool holds(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

// Notes that the pass ran; whether print_after() asked for it.
bool is_wanted_after_run(std::string_view name) {
  const std::lock_guard lock(mutex);
  if (!holds(ran, name)) ran.emplace_back(name);
  return holds(wanted, name);
}

bool watches_all() {
  const char* value = std::getenv("OCTET_DEBUG");
  return value != nullptr && std::string_view(value) == "passes";
}

void verify_after(std::string_view name, const PassSubject& subject) {
  try {
    subject.verify();
  } catch (const std::exception& error) {
    throw Error("verify", fmt::format("after {}", name), error.what());
  }
}

PassSubject subject_of(const Graph& graph) {
  return {[&graph] { return to_text(graph); }, [&graph] { verify(graph); }};
}

}  // namespace

void run_passes(std::string_view stage, const PassSubject& subject,
                std::initializer_list<Pass> passes) {
  const bool is_debugged = watches_all();
  std::string last;
  for (const Pass& pass : passes) {
    if (!pass.is_on) continue;
    pass.run();
    if (unwatched > 0) continue;
    const bool is_wanted = is_wanted_after_run(pass.name);
    if (is_wanted || is_debugged) {
      std::string text = subject.print();
      fmt::print(stderr, "{}: {}\n{}\n", stage, pass.name,
                 !is_wanted && text == last ? "(unchanged)" : printable(text));
      last = std::move(text);
    }
    if (is_debugged) verify_after(pass.name, subject);
  }
}

void run_passes(std::string_view stage, const Graph& graph, std::initializer_list<Pass> passes) {
  run_passes(stage, subject_of(graph), passes);
}

int run_passes(std::string_view stage, const Graph& graph, const LogSink& log,
               std::initializer_list<Pass> passes) {
  const PassSubject subject = subject_of(graph);
  int total = 0;
  for (const Pass& pass : passes) {
    const size_t nodes_before = graph.node_count();
    const auto start = std::chrono::steady_clock::now();
    int changes = 0;
    run_passes(stage, subject, {{pass.name, [&] { changes = pass.run(); }, pass.is_on}});
    const double ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    verify_after(pass.name, subject);
    total += changes;
    const std::string what =
        changes == 0 ? "(unchanged)"
                     : fmt::format("{} change{}, {} -> {} nodes", changes, changes == 1 ? "" : "s",
                                   nodes_before, graph.node_count());
    if (pass.is_on) log(fmt::format("{}: {} ({:.1f} ms)", pass.name, what, ms));
  }
  return total;
}

UnwatchedPasses::UnwatchedPasses() { ++unwatched; }
UnwatchedPasses::~UnwatchedPasses() { --unwatched; }

void print_after(const std::string& name) {
  const std::lock_guard lock(mutex);
  wanted.push_back(name);
}

std::vector<std::string> names_without_pass() {
  const std::lock_guard lock(mutex);
  std::vector<std::string> names;
  std::ranges::copy_if(wanted, std::back_inserter(names),
                       [](const std::string& name) { return !holds(ran, name); });
  return names;
}

std::vector<std::string> names_of_passes() {
  const std::lock_guard lock(mutex);
  return ran;
}

}  // namespace octet
