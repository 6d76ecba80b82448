// A quantizer without a table of rows: it looks at each op by itself.
#pragma once

#include "quantizers/common/configurable_quantizer.h"

namespace acme {

// Convolutions, linear layers and additions in int8, with the relu that alone reads them; weights
// per output channel. The settings of JSON files and of --config hold for it.
class PlainQuantizer : public octet::ConfigurableQuantizer {
 public:
  PlainQuantizer() : ConfigurableQuantizer("acme_plain") {}
  void annotate(octet::Graph& graph, octet::Annotations& annotations,
                octet::Report& report) override;
};

// Makes it known as "acme_plain".
void register_plain_quantizer();

}  // namespace acme
