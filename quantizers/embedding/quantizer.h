// Tables of embeddings as uint8, one scale and zero point a row; activations stay float.
#pragma once

#include "annotate/annotation/quantizer.h"
#include "quantizers/common/compat.h"
#include "quantizers/common/module_filter.h"

namespace octet {

// The weight alone has a spec: uint8, affine with a float zero point (without fraction but in
// compat), channel axis 0. bits: 8, or 4 (0 .. 15 in uint8 storage). Throws Error("quantizer", ...)
// for any other number.
QuantizationConfig get_embedding_quantization_config(int64_t bits = 8,
                                                     Compat compat = Compat::kNone);

// Annotates embedding and embedding_bag, all of them with 8 bits until a config is set. A config of
// nullopt leaves what it covers float. compat: embedding alone, and what an earlier quantizer said
// about it is overwritten. Setters return *this.
class EmbeddingQuantizer : public Quantizer {
 public:
  explicit EmbeddingQuantizer(Compat compat = Compat::kNone, std::string name = "embedding");

  EmbeddingQuantizer& set_global(std::optional<QuantizationConfig> config);
  EmbeddingQuantizer& set_module_name(const std::string& name,
                                      std::optional<QuantizationConfig> config);
  EmbeddingQuantizer& set_module_type(const std::string& type,
                                      std::optional<QuantizationConfig> config);
  EmbeddingQuantizer& set_operator_type(const std::string& op,
                                        std::optional<QuantizationConfig> config);
  // The whole path of a module matches; and the n-th call of an op. Both throw Error in compat.
  EmbeddingQuantizer& set_module_name_regex(const std::string& regex,
                                            std::optional<QuantizationConfig> config);
  EmbeddingQuantizer& set_call_index(const CallIndex& call,
                                     std::optional<QuantizationConfig> config);
  // What the setters have filled in; for where each row was said.
  ConfigTable& rows() { return configs_; }

  std::string name() const override { return name_; }
  void check_model(const Graph& model) const override;
  void annotate(Graph& graph, Annotations& annotations, Report& report) override;

 private:
  void annotate_compat(Graph& graph, Annotations& annotations) const;

  Compat compat_;
  std::string name_;
  ConfigTable configs_;
};

}  // namespace octet
