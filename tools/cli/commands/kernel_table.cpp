#include "tools/cli/commands/kernel_table.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace octet {
namespace {

double total_seconds(const std::vector<KernelReport>& kernels) {
  double total = 0;
  for (const KernelReport& kernel : kernels) total += kernel.seconds;
  return total > 0 ? total : 1;
}

// "(2)" of the second note; "" for none.
std::string mark_of(const std::string& note, std::vector<std::string>& notes) {
  if (note.empty()) return {};
  const std::vector<std::string>::iterator known = std::find(notes.begin(), notes.end(), note);
  const size_t number = static_cast<size_t>(known - notes.begin()) + 1;
  if (known == notes.end()) notes.push_back(note);
  return fmt::format("({})", number);
}

}  // namespace

std::string kernels_to_table(const std::vector<KernelReport>& kernels) {
  const double total = total_seconds(kernels);
  std::vector<std::string> notes;
  std::string text = fmt::format("{:>6} {:>9}  {:<24} {:<32} {:<26} {:<4} ops\n", "share", "us",
                                 "what", "kernel", "layout", "note");
  for (const KernelReport& kernel : kernels) {
    const std::string what = kernel.post_ops.empty()
                                 ? kernel.what
                                 : fmt::format("{} + {}", kernel.what, kernel.post_ops);
    text += fmt::format("{:>5.1f}% {:>9.1f}  {:<24} {:<32} {:<26} {:<4} {}\n",
                        100 * kernel.seconds / total, 1e6 * kernel.seconds, what, kernel.kernel,
                        kernel.layout, mark_of(kernel.note, notes), fmt::join(kernel.ops, " "));
  }
  for (size_t i = 0; i < notes.size(); ++i)
    text += fmt::format("{}({}) {}\n", i == 0 ? "\n" : "", i + 1, notes[i]);
  return text;
}

std::string kernels_to_json(const std::vector<KernelReport>& kernels) {
  const double total = total_seconds(kernels);
  nlohmann::ordered_json calls = nlohmann::ordered_json::array();
  for (const KernelReport& kernel : kernels)
    calls.push_back({{"share", kernel.seconds / total},
                     {"us", 1e6 * kernel.seconds},
                     {"what", kernel.what},
                     {"kernel", kernel.kernel},
                     {"layout", kernel.layout},
                     {"post_ops", kernel.post_ops},
                     {"ops", kernel.ops},
                     {"note", kernel.note}});
  return nlohmann::ordered_json{{"kernels", std::move(calls)}}.dump(
      -1, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace octet
