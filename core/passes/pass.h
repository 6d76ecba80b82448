// Runs the passes of a stage in order, and shows what they do: OCTET_DEBUG=passes, and
// --print-after NAME of `octet quantize` and `octet lower`.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/graph/graph.h"

namespace octet {

// One named step: {"fuse", [&] { return fuse(program); }, options.fuse}.
struct Pass {
  // work: returns the number of its changes, or nothing. is_on: false leaves it out.
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

// What the passes change, where it is no graph.
struct PassSubject {
  std::function<std::string()> print;  // it as text
  std::function<void()> verify;        // throws when it is not sound
};

using LogSink = std::function<void(const std::string& line)>;

// Runs the passes in order; `stage` is prepare, convert or lower. A pass that is watched gives a
// line "convert: insert_qdq" and the program's text on stderr:
//   OCTET_DEBUG=passes   watches all, and verifies the program after each; a text that the pass
//                        before left already is "(unchanged)"
//   print_after(NAME)    watches the passes of that name
// Throws what they throw; Error("verify", "after NAME", ...) for a program that is not sound.
void run_passes(std::string_view stage, const PassSubject& subject,
                std::initializer_list<Pass> passes);
void run_passes(std::string_view stage, const Graph& graph, std::initializer_list<Pass> passes);

// The same; verifies after each pass, and each gives a line to `log`: "fold_conv_bn: 3 changes, 41
// -> 38 nodes (0.4 ms)" or "fold_conv_bn: (unchanged) (0.1 ms)". Returns the number of changes.
int run_passes(std::string_view stage, const Graph& graph, const LogSink& log,
               std::initializer_list<Pass> passes);

// From now on, in the whole process.
void print_after(const std::string& name);
// Names given to print_after() that no pass had so far, and the names of those that ran.
std::vector<std::string> names_without_pass();
std::vector<std::string> names_of_passes();

}  // namespace octet
