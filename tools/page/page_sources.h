// Gives access to the files of the page in this folder; CMake writes the .cpp (embed.cmake).
#pragma once

#include <string_view>

namespace octet {

// "page.html", "page.css", "page.js" (all scripts of the page, one after the other), "d3.min.js",
// "plot.min.js", "dagre.min.js", "licenses". Trips OCTET_ASSERT for other names.
std::string_view page_source(std::string_view name);

}  // namespace octet
