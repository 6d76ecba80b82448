// The numbers that torch's program schema gives dtypes, layouts, memory formats and argument kinds
// (its own, not c10's).
#pragma once

#include <optional>

#include "core/graph/graph.h"

namespace octet {

// Null for 0 (unknown) and for numbers the schema does not have.
std::optional<DType> find_dtype_by_schema(int number);
int schema_number(DType dtype);

std::optional<Layout> find_layout_by_schema(int number);
int schema_number(Layout layout);

std::optional<MemoryFormat> find_memory_format_by_schema(int number);
int schema_number(MemoryFormat format);

}  // namespace octet
