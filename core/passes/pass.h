// Runs the passes of a stage in order and prints what they do, for OCTET_DEBUG=passes and for
// --print-after NAME of `octet quantize` and `octet lower`.
#pragma once

#include <initializer_list>
#include <type_traits>
#include <utility>

#include "core/graph/graph.h"

namespace octet {

// One named step: {"fuse", [&] { return fuse(program); }, options.fuse}.
struct Pass {
  // work: returns the number of its changes, or nothing. is_on: false skips the pass.
  template <class Work>
  Pass(std::string_view name, Work work, bool is_on = true)
      : name(name), is_on(is_on), run([work = std::move(work)]() -> int {
          if constexpr (std::is_void_v<decltype(work())>)
            return work(), 0;
          else
            return static_cast<int>(work());
        }) {}

  std::string_view name;
  bool is_on;
  std::function<int()> run;
};

// What the passes change, when it is not a graph.
struct PassSubject {
  std::function<std::string()> print;  // the subject as text
  std::function<void()> verify;        // throws when it is invalid
};

using LogSink = std::function<void(const std::string& line)>;

// Runs the passes in order; `stage` is prepare, convert or lower. A watched pass prints a line
// "convert: insert_qdq" and the program's text to stderr:
//   OCTET_DEBUG=passes   watches all passes and verifies the program after each; a text equal to
//                        that after the previous pass is printed as "(unchanged)"
//   print_after(NAME)    watches the passes of that name
// Throws what they throw, and Error("verify", "after NAME", ...) for an invalid program.
void run_passes(std::string_view stage, const PassSubject& subject,
                std::initializer_list<Pass> passes);
void run_passes(std::string_view stage, const Graph& graph, std::initializer_list<Pass> passes);

// Also verifies after each pass and writes a line per pass to `log`: "fold_conv_bn: 3 changes, 41
// -> 38 nodes (0.4 ms)" or "fold_conv_bn: (unchanged) (0.1 ms)". Returns the number of changes.
int run_passes(std::string_view stage, const Graph& graph, const LogSink& log,
               std::initializer_list<Pass> passes);

// Watches passes of this name, from now on in the whole process.
void print_after(const std::string& name);
// Names given to print_after() that no pass has had so far, and the names of the passes that ran.
std::vector<std::string> names_without_pass();
std::vector<std::string> names_of_passes();

// While one exists, run_passes() in this thread prints nothing for OCTET_DEBUG and print_after(),
// and the passes do not count as run.
class UnwatchedPasses {
 public:
  UnwatchedPasses();
  ~UnwatchedPasses();
  UnwatchedPasses(const UnwatchedPasses&) = delete;
  UnwatchedPasses& operator=(const UnwatchedPasses&) = delete;
};

}  // namespace octet
