// octet_calibration_speed FOLDER [QUANTIZER [BATCHES]]: the cost of calibration compared with the
// float model. FOLDER is a golden folder (model.pt2 and calib_*). Prints milliseconds per batch of
// the float forward run, and of calibration with min-max and with histogram observers for the
// activations: the median over BATCHES batches (default 12), on one thread, in its CPU time. The
// folder's batches are repeated, in the last run a little larger each time.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <iostream>

#include <ATen/Parallel.h>

#include "annotate/calibrate/calibrate.h"
#include "annotate/convert/convert.h"
#include "core/interpreter/interpreter.h"
#include "core/pt2/reader.h"
#include "quantizers/registry.h"
#include "support/golden.h"

namespace {

using namespace octet;
// Milliseconds of processor time of this thread: others on the machine do not count.
double now() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return 1e3 * static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_nsec);
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

// Another quantizer's annotations, with `observer` in place of each histogram.
class WithObserver : public Quantizer {
 public:
  WithObserver(std::unique_ptr<Quantizer> inner, std::string observer)
      : inner_(std::move(inner)), observer_(std::move(observer)) {}
  std::string name() const override { return inner_->name(); }
  void transform_for_annotation(Graph& graph) override { inner_->transform_for_annotation(graph); }
  void annotate(Graph& graph, Annotations& annotations, Report& report) override {
    inner_->annotate(graph, annotations, report);
    for (const Node* node : graph.nodes()) {
      QuantizationAnnotation* annotation = annotations.find(node);
      if (annotation == nullptr) continue;
      for (std::pair<Value*, SpecVariant>& input : annotation->input_qspec_map)
        replace(input.second);
      if (annotation->output_qspec) replace(*annotation->output_qspec);
    }
  }

 private:
  void replace(SpecVariant& spec) const {
    QuantizationSpec* own = std::get_if<QuantizationSpec>(&spec);
    if (own != nullptr && own->observer_or_fake_quant_ctr.name == "histogram")
      own->observer_or_fake_quant_ctr.name = observer_;
  }

  std::unique_ptr<Quantizer> inner_;
  std::string observer_;
};

struct Figures {
  double per_batch;
  double convert;
};

Figures measure(const test::GoldenCase& golden, const std::string& quantizer,
                const std::string& observer, const std::vector<std::vector<c10::IValue>>& batches,
                size_t count, double growth) {
  WithObserver with_observer(make_quantizer(quantizer), observer);
  Report report;
  ObservedGraph observed =
      prepare_pt2e(read_pt2(golden.folder / "model.pt2"), with_observer, report);
  std::vector<double> times;
  size_t i = 0;
  double start = 0;
  calibrate(
      observed,
      [&]() -> std::optional<std::vector<c10::IValue>> {
        if (i == count + 1) return std::nullopt;
        std::vector<c10::IValue> batch;
        for (const c10::IValue& input : batches[i % batches.size()]) {
          const bool grows =
              growth != 0 && input.isTensor() && input.toTensor().is_floating_point();
          batch.push_back(
              grows ? c10::IValue(input.toTensor().mul(1 + growth * static_cast<double>(i)))
                    : input);
        }
        ++i;
        start = now();
        return batch;
      },
      [&](size_t) { times.push_back(now() - start); });
  times.erase(times.begin());  // the weights are observed in the first batch alone
  start = now();
  convert_pt2e(std::move(observed), {}, report);
  return {median(times), now() - start};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 4) return 2;
  at::set_num_threads(1);
  try {
    test::GoldenCase golden{argv[1], {}};
    golden.meta = golden.json("case.json");
    const std::string quantizer = argc > 2 ? argv[2] : "xnnpack";
    const size_t count = argc > 3 ? std::stoul(argv[3]) : 12;
    const std::vector<std::vector<c10::IValue>> batches = golden.calibration();
    const Graph graph = read_pt2(golden.folder / "model.pt2");
    Interpreter interpreter(graph);
    std::vector<double> times;
    for (size_t i = 0; i <= count; ++i) {
      const double start = now();
      interpreter.run(batches[i % batches.size()]);
      if (i > 0) times.push_back(now() - start);
    }
    const double forward = median(times);
    std::printf("float forward       %8.2f ms per batch\n", forward);
    const std::vector<std::pair<const char*, double>> runs = {
        {"min_max", 0}, {"histogram", 0}, {"histogram", 0.01}};
    for (const auto& [observer, growth] : runs) {
      const Figures figures = measure(golden, quantizer, observer, batches, count, growth);
      std::printf("%-9s calibrate %8.2f ms per batch (%.2f times the forward%s), convert %.0f ms\n",
                  observer, figures.per_batch, figures.per_batch / forward,
                  growth != 0 ? "; every range grows with every batch" : "", figures.convert);
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
