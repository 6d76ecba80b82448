// Compiles the functions of {fmt} that are not templates, so that other sources only declare them.
// core/CMakeLists.txt sets the options that keep each function of the header-only form here.
#include <fmt/format.h>
#include <fmt/ranges.h>
