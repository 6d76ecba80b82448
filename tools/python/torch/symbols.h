// Lets users' libraries find Octet's functions in a Python process.
#pragma once

namespace octet::python {

// Makes the exported symbols of liboctet.so (shared.map) visible to all libraries that are loaded
// from now on. Python loads a module and its dependencies privately, but a library for the command
// (tools/extension.h) resolves its undefined functions from the program, which in Python means from
// the process. Further calls change nothing. Throws Error.
void show_symbols();

}  // namespace octet::python
