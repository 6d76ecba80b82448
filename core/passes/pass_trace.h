// Watching a program while passes change it: OCTET_DEBUG=passes, and --print-after NAME of `octet
// quantize` and `octet lower`.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/graph/graph.h"

namespace octet {

// The passes of one stage (prepare, convert, lower) over one program. A traced pass gives a line
// "convert: insert_qdq" and the program's text on stderr.
//   OCTET_DEBUG=passes   traces every pass, and verifies the program after each
//   print_after(NAME)    traces the passes of that name
class PassTrace {
 public:
  // print: the program as text. verify: throws when it is not sound.
  PassTrace(std::string stage, std::function<std::string()> print, std::function<void()> verify)
      : stage_(std::move(stage)), print_(std::move(print)), verify_(std::move(verify)) {}

  // Runs `pass` and returns what it returns. Throws what it throws; Error("verify", "after NAME",
  // ...) when what it leaves is not sound.
  template <class Pass>
  auto run(std::string_view name, Pass&& pass) const {
    if constexpr (std::is_void_v<decltype(pass())>) {
      pass();
      after(name);
    } else {
      auto result = pass();
      after(name);
      return result;
    }
  }

 private:
  void after(std::string_view name) const;

  std::string stage_;
  std::function<std::string()> print_;
  std::function<void()> verify_;
};

// Of a graph, which must outlive it and stay where it is.
PassTrace trace_of(std::string stage, const Graph& graph);

// From now on, in the whole process.
void print_after(const std::string& name);
// Names given to print_after() that no pass had so far, and the names of those that ran.
std::vector<std::string> names_without_pass();
std::vector<std::string> names_of_passes();

}  // namespace octet
