// That users' libraries find Octet's functions in a Python process.
#pragma once

namespace octet::python {

// Makes what liboctet.so shows (shared.map) visible to all libraries that are opened from now on.
// Python opens a module and what it needs for that module alone, while a library for the command
// (tools/extension.h) finds its undefined functions in the program; here it finds them in the
// process. A second call changes nothing. Throws Error.
void show_symbols();

}  // namespace octet::python
