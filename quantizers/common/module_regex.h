// Matches module paths with a regular expression.
#pragma once

#include <memory>
#include <string>

namespace octet {

class ModuleRegex {
 public:
  // ECMAScript. Throws Error("quantizer", "module_name_regex \"(\"", ...) when the text is not a
  // valid expression or is longer than 500 characters.
  explicit ModuleRegex(const std::string& text);
  ~ModuleRegex();
  ModuleRegex(ModuleRegex&&) noexcept;
  ModuleRegex& operator=(ModuleRegex&&) noexcept;

  const std::string& text() const;
  // Whether the whole path matches. Paths longer than 1000 characters never do. Not thread-safe,
  // because results are cached.
  bool matches(const std::string& path) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace octet
