// The heavy headers of the tests that link LibTorch, compiled once.
#pragma once

#include "core/torch_pch.h"
// torch's logging takes the name; in tests it is Catch's.
#undef CHECK

#include <catch2/catch.hpp>
