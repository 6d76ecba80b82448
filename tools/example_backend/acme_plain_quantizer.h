// A quantizer without a table of rules: it looks at each op by itself.
#pragma once

#include "quantizers/common/configurable_quantizer.h"

namespace acme {

// Quantizes convolutions, linear layers and additions to int8, together with a relu that is their
// only reader. Settings of JSON files and of --config apply.
class PlainQuantizer : public octet::ConfigurableQuantizer {
 public:
  PlainQuantizer() : ConfigurableQuantizer("acme_plain") {}
  void annotate(octet::Graph& graph, octet::Annotations& annotations,
                octet::Report& report) override;
};

// Registers it as "acme_plain".
void register_plain_quantizer();

}  // namespace acme
