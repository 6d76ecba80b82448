// Matchers over graphs: CHECK_THAT(graph, PrintsAs(R"(graph(...): ...)")).
#pragma once

#include <string>
#include <utility>

#include <catch2/catch.hpp>

#include "core/graph/graph.h"
#include "core/text/text.h"

namespace octet::test {

// Replaces each run of white space by one space, and removes it at brackets and at the ends, so
// that indentation and line breaks do not matter.
inline std::string without_indentation(std::string_view text) {
  std::string out;
  bool blank = false;
  for (char c : text) {
    if (std::isspace(static_cast<unsigned char>(c)) != 0) {
      blank = true;
      continue;
    }
    const bool is_glued =
        out.empty() || out.back() == '(' || out.back() == '[' || c == ')' || c == ']';
    if (blank && !is_glued) out += ' ';
    blank = false;
    out += c;
  }
  return out;
}

// The graph's text is the expected one, apart from indentation.
class PrintsAsMatcher : public Catch::MatcherBase<Graph> {
 public:
  PrintsAsMatcher(std::string expected, TextOptions options)
      : expected_(std::move(expected)), options_(options) {}
  bool match(const Graph& graph) const override {
    return without_indentation(to_text(graph, options_)) == without_indentation(expected_);
  }
  std::string describe() const override { return "prints as\n" + expected_; }

 private:
  std::string expected_;
  TextOptions options_;
};

inline PrintsAsMatcher PrintsAs(std::string expected) { return {std::move(expected), {}}; }
// Compares without the types of inputs and results.
inline PrintsAsMatcher PrintsAsUntyped(std::string expected) {
  return {std::move(expected), {.types = false}};
}

}  // namespace octet::test

namespace Catch {
template <>
struct StringMaker<octet::Graph> {
  static std::string convert(const octet::Graph& graph) { return "\n" + octet::to_text(graph); }
};
}  // namespace Catch
