// Differential test of training on the QAT cases in compat mode: the prepared graph, outputs, first
// gradients, the state after each of two steps, the evaluation and the converted program.
// Skipped without OCTET_GOLDEN_DIR.
#include <catch2/catch.hpp>

#include <iostream>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "annotate/convert/convert.h"
#include "annotate/observers/fake_quantize.h"
#include "annotate/prepare/prepare.h"
#include "annotate/training/qat_model.h"
#include "core/interpreter/aten_bridge.h"
#include "core/pt2/reader.h"
#include "quantizers/golden/golden_quantizer.h"
#include "support/golden.h"
#include "support/golden_match.h"
#include "support/npy.h"
#include "support/rule_quantizer.h"

namespace octet::test_golden_qat {
namespace {

using test::GoldenCase;
using test::Json;
using Tensors = std::map<std::string, Tensor>;

std::unique_ptr<Quantizer> quantizer_of(const GoldenCase& golden) {
  const Json& description = golden.meta.at("quantizer");
  if (description.at("type") == "rules")
    return std::make_unique<test::RuleQuantizer>(description.at("rules"));
  return test::make_golden_quantizer(description, Compat::kTorchao);
}

// The whole training of one case, step by step; `differences` lists differences from torchao.
class Training {
 public:
  explicit Training(const GoldenCase& golden) : golden_(golden) {}

  std::vector<std::string> run() {
    Report report;
    const std::unique_ptr<Quantizer> quantizer = quantizer_of(golden_);
    ObservedGraph prepared = prepare_qat_pt2e(read_pt2(golden_.folder / "model.pt2"), *quantizer,
                                              report, {.compat = Compat::kTorchao});
    differences_ = test::compare_prepared(prepared, golden_);
    if (!differences_.empty()) return differences_;
    prepared_json_ = golden_.json("prepared.json");
    groups_ = test::GoldenMatch(prepared_json_.at("nodes"), prepared.graph, {}, {}).groups;

    QatModel model(std::move(prepared));
    model.train();
    check_state(model, 0);
    for (int step = 0; step < 2; ++step) train(model, step);
    model.eval();
    model.enable_observers(false);
    {
      const at::NoGradGuard no_grad;
      check_outputs(model.forward(golden_.example()), "qat_eval_out", "evaluation");
    }
    ObservedGraph trained = std::move(model).finish();
    append(test::compare_qparams(trained, golden_));
    const Graph converted = convert_pt2e(std::move(trained), {.compat = Compat::kTorchao}, report);
    append(test::compare_converted(converted, golden_));
    append(test::compare_outputs(Interpreter(converted).run(golden_.example()), golden_));
    return differences_;
  }

 private:
  void train(QatModel& model, int step) {
    const std::vector<c10::IValue> outputs =
        model.forward(golden_.calibration().at(static_cast<size_t>(step)));
    const std::string files = fmt::format("qat_train_step{}_out", step);
    check_outputs(outputs, files, files);
    at::Tensor loss;
    for (const c10::IValue& output : outputs) {
      const at::Tensor part = output.toTensor().square().mean();
      loss = loss.defined() ? loss + part : part;
    }
    check_number(loss.item<double>(),
                 golden_.meta.at("qat").at("losses").at(static_cast<size_t>(step)),
                 fmt::format("loss {}", step));
    for (const at::Tensor& parameter : model.parameters()) parameter.mutable_grad() = at::Tensor();
    loss.backward();
    if (step == 0) check_gradients(model);
    const at::NoGradGuard no_grad;
    const double rate = golden_.meta.at("qat").at("lr");
    for (const at::Tensor& parameter : model.parameters())
      if (parameter.grad().defined()) parameter.add_(parameter.grad(), -rate);
    check_state(model, step + 1);
  }

  void check_gradients(const QatModel& model) {
    const Tensors want = test::read_npz(golden_.folder / "qat_grad_step0.npz");
    CHECK(want.size() == model.parameters().size());
    for (const auto& [name, gradient] : want)
      check(model.tensors().at(name).grad(), gradient, 1e-5, "gradient of " + name);
  }

  void check_state(const QatModel& model, int step) {
    const Tensors want = test::read_npz(golden_.folder / fmt::format("qat_state_step{}.npz", step));
    for (const auto& [name, tensor] : want)
      if (!name.starts_with("activation_post_process_"))
        check(model.tensors().at(name), tensor, 1e-5, fmt::format("{} after step {}", name, step));
    std::map<int, std::string> modules;  // golden group -> the first module of it
    for (const Json& node : prepared_json_.at("nodes"))
      if (node.contains("observer"))
        modules.emplace(node.at("observer").at("group").get<int>(),
                        node.at("target").get<std::string>());
    for (const auto& [group, ours] : groups_)
      check_fake_quant(*model.prepared().observers.at(static_cast<size_t>(ours)), modules.at(group),
                       want, step);
  }

  void check_fake_quant(const Observer& observer, const std::string& module, const Tensors& want,
                        int step) {
    const FakeQuantize* fake_quant = dynamic_cast<const FakeQuantize*>(&observer);
    if (fake_quant == nullptr) return differences_.push_back(module + " is not a fake-quant");
    const std::string where = fmt::format("{} after step {}", module, step);
    check(fake_quant->scale(), want.at(module + ".scale"), 1e-5, where + ": scale");
    check(fake_quant->zero_point(), want.at(module + ".zero_point"), 0, where + ": zero point");
    const auto low = want.find(module + ".activation_post_process.min_val");
    if (low == want.end() || step == 0) return;
    check(at::tensor(observer.state().min), low->second, 1e-5, where + ": min");
    check(at::tensor(observer.state().max), want.at(module + ".activation_post_process.max_val"),
          1e-5, where + ": max");
  }

  void check_outputs(const std::vector<c10::IValue>& outputs, const std::string& files,
                     const std::string& where) {
    for (size_t i = 0; i < outputs.size(); ++i) {
      const at::Tensor want =
          to_aten(test::read_npy(golden_.folder / fmt::format("{}{}.npy", files, i)))
              .to(at::kDouble);
      const at::Tensor off = (outputs[i].toTensor().detach().to(at::kDouble) - want).abs();
      const double beyond =
          (off > golden_.tolerance("float_out_atol")).to(at::kDouble).mean().item<double>();
      if (beyond > golden_.tolerance("quantized_out_max_frac_beyond_float"))
        differences_.push_back(fmt::format("{}: {} of the elements are off, by up to {}", where,
                                           beyond, off.max().item<double>()));
    }
  }

  // rtol: of the largest magnitude.
  void check(const at::Tensor& got, const Tensor& golden, double rtol, const std::string& where) {
    if (!got.defined()) return differences_.push_back(where + " is missing");
    const at::Tensor want = to_aten(golden).to(at::kDouble).reshape({-1});
    const at::Tensor ours = got.detach().to(at::kDouble).reshape({-1});
    if (want.numel() != ours.numel())
      return differences_.push_back(
          fmt::format("{}: {} numbers, want {}", where, ours.numel(), want.numel()));
    if (want.numel() == 0 || at::equal(ours, want)) return;
    const double off = (ours - want).abs().max().item<double>();
    if (!(off <= rtol * want.abs().max().item<double>()))
      differences_.push_back(fmt::format("{}: off by {}", where, off));
  }

  void check_number(double got, double want, const std::string& where) {
    if (std::abs(got - want) > 1e-5 * std::abs(want))
      differences_.push_back(fmt::format("{}: {}, want {}", where, got, want));
  }

  void append(const std::vector<std::string>& more) {
    differences_.insert(differences_.end(), more.begin(), more.end());
  }

  const GoldenCase& golden_;
  Json prepared_json_;
  std::map<int, int> groups_;
  std::vector<std::string> differences_;
};

}  // namespace

TEST_CASE(
    "golden: training with fake quantization gives the peer's graph, outputs, gradients, states "
    "and converted program",
    "[quantizers][golden][qat][long]") {
  at::set_num_threads(1);
  int compared = 0;
  int equal = 0;
  for (const GoldenCase& golden : test::golden_cases("qat_")) {
    if (golden.peer_failed()) continue;
    std::string difference;
    try {
      difference = fmt::format("{}", fmt::join(Training(golden).run(), "; "));
    } catch (const std::exception& error) {
      difference = error.what();
    }
    ++compared;
    equal += difference.empty();
    if (!difference.empty()) std::cerr << golden.name() << ": " << difference << "\n";
    INFO(golden.name());
    CHECK_THAT(difference, Catch::Matchers::Equals(""));
  }
  if (compared > 0)
    std::cerr << fmt::format("training: {} of {} golden cases are equal\n", equal, compared);
}

}  // namespace octet::test_golden_qat
