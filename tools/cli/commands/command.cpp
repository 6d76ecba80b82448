#include "tools/cli/commands/command.h"

#include "core/base/output_file.h"

namespace octet {

void write_text_file(const std::string& path, const std::string& text) {
  write_file(path, text, "output");
}

void check_writable(const std::string& path) { check_writable(path, "output"); }

bool has_suffix(std::string_view path, std::string_view suffix) {
  return path.size() >= suffix.size() && path.ends_with(suffix);
}

}  // namespace octet
