// The numbers that torch's program schema gives dtypes, layouts, memory formats and argument kinds
// (its own, not c10's).
#pragma once

#include <optional>
#include <string>

#include "core/graph/graph.h"

namespace octet {

// Null for 0 (unknown) and for numbers the schema does not have.
std::optional<DType> find_dtype_by_schema(int number);
int schema_number(DType dtype);

std::optional<Layout> find_layout_by_schema(int number);
int schema_number(Layout layout);

std::optional<MemoryFormat> find_memory_format_by_schema(int number);
int schema_number(MemoryFormat format);

// What a target begins with that names a Python function; all others are ops, "torch.ops.".
bool is_function_target(const std::string& target);

}  // namespace octet
