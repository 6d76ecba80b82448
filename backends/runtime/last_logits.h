// Restricts a language model to the logits of the last positions. To continue a prompt only those
// of its last token are needed, and the product that makes them, one row for each word of the
// vocabulary, is a large part of the work. Needs no LibTorch.
#pragma once

#include <cstdint>

#include "lowering/program/program.h"

namespace octet {

// Makes the first output [..., n, words] of a program with segments [..., min(n, count), words]:
// slices the input of the `linear` that computes it, element-wise ops between them included.
// count: at least 1. Returns false, and does not change the program, when another op computes the
// output, when other ops read it, or when the segment's backend refuses the slice.
bool keep_last_logits(Program& program, int64_t count);

}  // namespace octet
