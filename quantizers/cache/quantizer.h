// Quantizes caches of keys and values to int8 with a scale for each token and head.
#pragma once

#include <string>

#include "quantizers/common/configurable_quantizer.h"

namespace octet {

// The rows that a program writes into a cache have a spec: int8 in -127 .. 127, symmetric, dynamic,
// one scale for each row of the last dimension. PyTorch keeps the rounded floats in the cache; a
// lowered program keeps the integers and the scales.
QuantizationConfig get_kv_cache_quantization_config();

// Annotates index_copy and index_put into float32 buffers that hold zeros at first, if they write
// whole rows, and no other op writes into the buffer or reads what it held before. Throws
// Error("quantizer", "kv_cache", ...) if the program has no such buffer. Setters return *this; a
// config of nullopt leaves a cache float.
class KvCacheQuantizer : public ConfigurableQuantizer, public RowSetters<KvCacheQuantizer> {
 public:
  explicit KvCacheQuantizer(std::string name = "kv_cache");

  void annotate(Graph& graph, Annotations& annotations, Report& report) override;
};

}  // namespace octet
