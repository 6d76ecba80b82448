// For a program that draws progress itself, such as Python in a notebook.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

namespace octet {

// Called whenever work advances, in the working thread, also if nothing is drawn on stderr. total:
// 0 if it is not known. An exception from it ends the work. Null: none.
using ProgressSink = std::function<void(std::string_view stage, size_t done, size_t total)>;
void set_progress_sink(ProgressSink sink);

}  // namespace octet
