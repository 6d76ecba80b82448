// Files that a command writes are none that it reads.
#pragma once

namespace CLI {
class App;
}

namespace octet {

// `command`: parsed. Throws Error(its name, the file, ...) when an output names the same file as
// another option or argument does, through links, too: writing would destroy what is read.
// Files that are replaced on purpose are excepted: those of --checkpoint, from which work goes on.
void check_outputs(const CLI::App& command);

}  // namespace octet
