// How large a zip becomes, asked before any of it is unpacked.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace octet {

// Throws Error(stage, path, ...) when the members of the zip, as its directory states their sizes,
// take more than 200 times the bytes of the file (and more than a MiB). torch stores members as
// they are; what was compressed anew stays far below. Damage is left to the reader of the zip.
void check_unpacked_size(std::span<const std::byte> zip, const std::string& stage,
                         const std::string& path);

}  // namespace octet
