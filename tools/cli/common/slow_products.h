// What a lowered program runs slowly.
#pragma once

#include <string>
#include <vector>

#include "lowering/program/program.h"

namespace octet {

// Products that run on the reference, which is many times slower: a line for each reason.
std::vector<std::string> slow_products(const Program& program);

}  // namespace octet
