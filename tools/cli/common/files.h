// Files that a command names: "-" for stdin and stdout, outputs that would replace an input, and
// text within a torch.save file.
#pragma once

#include <string>

#include <ATen/core/Tensor.h>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace octet {

// `command`: parsed. Throws Error(its name, the file, ...) when an output names the same file as
// another option or argument does, through links, too: writing would destroy what is read.
// Except for --checkpoint, whose file a resumed run replaces on purpose.
void check_outputs(const CLI::App& command);

// For one option of a command. A pipe is read whole, as these files are read at random.
CLI::Option* accept_standard_input(CLI::Option* option);
// REQUIRES: the command prints nothing on stdout, or check_free_standard_output() stands in front
// of that.
CLI::Option* accept_standard_output(CLI::Option* option);
// Throws Error(subject, ...) when an output goes to stdout. subject: an option that prints there.
void check_free_standard_output(const char* subject);

at::Tensor tensor_of_text(const std::string& text);
// "" of a tensor of anything but bytes.
std::string text_of_tensor(const at::Tensor& bytes);

}  // namespace octet
