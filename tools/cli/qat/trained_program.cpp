#include "tools/cli/qat/trained_program.h"

#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "annotate/convert/convert.h"
#include "annotate/training/qat_model.h"
#include "core/base/error.h"
#include "tools/cli/qat/checkpoint.h"
#include "tools/cli/quantize/flow_text.h"

namespace octet {

Graph read_trained(const std::string& checkpoint, const std::string& model) {
  const SavedTraining saved = read_checkpoint(checkpoint, "compare");
  QuantizeFlow flow;
  try {
    flow = flow_of_text(saved.flow);
  } catch (const nlohmann::json::exception&) {
    throw Error("compare", checkpoint, "is damaged; take an older copy, or train again");
  }
  flow.model = model;
  Report report;
  QatModel trained(prepare_model(read_model(flow), flow, report));
  if (!restore_saved(trained, saved))
    throw Error("compare", checkpoint,
                "is of a training of another model; give the float program that is trained");
  return convert_pt2e(std::move(trained).finish(), {.compat = flow.compat}, report);
}

}  // namespace octet
