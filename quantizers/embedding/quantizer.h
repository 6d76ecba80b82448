// Tables of embeddings as uint8, one scale and zero point a row; activations stay float.
#pragma once

#include "quantizers/common/configurable_quantizer.h"

namespace octet {

// The weight alone has a spec: uint8, affine with a float zero point (without fraction but in
// compat), channel axis 0. bits: 8, or 4 (0 .. 15 in uint8 storage). Throws Error("quantizer", ...)
// for any other number.
QuantizationConfig get_embedding_quantization_config(int64_t bits = 8,
                                                     Compat compat = Compat::kNone);

// Annotates embedding and embedding_bag, all of them with 8 bits until a config is set. A config of
// nullopt leaves what it covers float. compat: embedding alone, and what an earlier quantizer said
// about it is overwritten. Setters return *this.
class EmbeddingQuantizer : public ConfigurableQuantizer, public RowSetters<EmbeddingQuantizer> {
 public:
  explicit EmbeddingQuantizer(Compat compat = Compat::kNone, std::string name = "embedding");

  void annotate(Graph& graph, Annotations& annotations, Report& report) override;

 private:
  void annotate_compat(Graph& graph, Annotations& annotations) const;
};

}  // namespace octet
