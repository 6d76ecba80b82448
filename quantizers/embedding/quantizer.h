// Quantizes embedding tables to uint8 with one scale and zero point per row; activations stay
// float.
#pragma once

#include "quantizers/common/configurable_quantizer.h"

namespace octet {

// Only the weight has a spec: uint8, affine with a float zero point (a whole number except in
// compat), channel axis 0. bits: 8, or 4 (0 .. 15, stored as uint8). Throws Error("quantizer", ...)
// for other numbers.
QuantizationConfig get_embedding_quantization_config(int64_t bits = 8,
                                                     Compat compat = Compat::kNone);

// Annotates embedding and embedding_bag, all of them with 8 bits until a config is set. A config of
// nullopt leaves ops float. compat: annotates embedding only, and overwrites annotations of earlier
// quantizers. Setters return *this.
class EmbeddingQuantizer : public ConfigurableQuantizer, public RowSetters<EmbeddingQuantizer> {
 public:
  explicit EmbeddingQuantizer(Compat compat = Compat::kNone, std::string name = "embedding");

  void annotate(Graph& graph, Annotations& annotations, Report& report) override;

 private:
  void annotate_compat(Graph& graph, Annotations& annotations) const;
};

}  // namespace octet
