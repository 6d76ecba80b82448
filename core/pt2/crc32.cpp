#include "core/pt2/crc32.h"

#include <caffe2/serialize/crc_alt.h>  // defines functions: for this file alone

namespace octet {

uint32_t crc32(const void* bytes, size_t size) { return ::crc32_fast(bytes, size); }

}  // namespace octet
