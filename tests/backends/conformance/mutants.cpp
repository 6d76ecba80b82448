#include "tests/backends/conformance/mutants.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "backends/conformance/program_builder.h"
#include "backends/reference/reference_backend.h"
#include "backends/registry.h"
#include "lowering/program/stored_constant.h"

namespace octet {
namespace {

std::optional<Mutant> current;  // a copy: the backend stays registered

// ---- changes of programs

using Change = std::function<void(Program&)>;

ProgramTensor& input(Program& p, size_t i) { return p.tensor(p.ops[0].inputs[i]); }
ProgramTensor& result(Program& p) { return p.tensor(p.ops[0].outputs[0]); }

Change without(const char* attribute) {
  return [=](Program& p) { p.ops[0].attributes.erase(attribute); };
}
Change with(const char* attribute, Attribute value) {
  return [=](Program& p) { p.ops[0].attributes[attribute] = value; };
}
Change as(const char* kind) {
  return [=](Program& p) { p.ops[0].kind = kind; };
}
Change flip(const char* attribute, bool by_default = false) {
  return [=](Program& p) {
    p.ops[0].attributes[attribute] = !p.ops[0].get(attr::Flag(attribute), by_default);
  };
}
Change swapped(size_t a, size_t b) {
  return [=](Program& p) {
    if (input(p, a).shape == input(p, b).shape) std::swap(p.ops[0].inputs[a], p.ops[0].inputs[b]);
  };
}
Change no_input(size_t i) {
  return [=](Program& p) {
    if (i < p.ops[0].inputs.size()) p.ops[0].inputs[i] = -1;
  };
}
Change no_zero_point(size_t i) {
  return [=](Program& p) {
    if (input(p, i).qparams) std::ranges::fill(input(p, i).qparams->zero_point, 0);
  };
}
Change scaled(size_t i, float factor) {
  return [=](Program& p) {
    if (input(p, i).qparams)
      for (float& scale : input(p, i).qparams->scale) scale *= factor;
  };
}
Change result_zero_point(int32_t by) {
  return [=](Program& p) {
    if (result(p).qparams) result(p).qparams->zero_point[0] += by;
  };
}
Change first_scale_for_all(size_t i) {
  return [=](Program& p) {
    if (input(p, i).qparams)
      std::ranges::fill(input(p, i).qparams->scale, input(p, i).qparams->scale[0]);
  };
}
Change reversed_scales(size_t i) {
  return [=](Program& p) {
    if (input(p, i).qparams) std::ranges::reverse(input(p, i).qparams->scale);
  };
}
Change reversed_list(const char* attribute) {
  return [=](Program& p) {
    std::vector<int64_t> list = p.ops[0].get(attr::Integers(attribute), {});
    std::ranges::reverse(list);
    if (!list.empty()) p.ops[0].attributes[attribute] = list;
  };
}
// The weights of input i in another order, as a wrong packing leaves them.
Change rolled_constant(size_t i, int64_t by) {
  return [=](Program& p) {
    if (i >= p.ops[0].inputs.size() || p.ops[0].inputs[i] < 0) return;
    ProgramTensor& tensor = input(p, i);
    if (!tensor.data.defined()) return;
    const Tensor from = tensor.data.contiguous();
    Tensor to = Tensor::zeros(from.dtype(), from.shape());
    const auto bytes = static_cast<int64_t>(size_of(from.dtype()));
    for (int64_t j = 0, n = from.numel(); j < n; ++j)
      std::memcpy(to.raw() + (j + by) % n * bytes, from.raw() + j * bytes,
                  static_cast<size_t>(bytes));
    tensor.data = to;
  };
}
// Padding with the integer 0 instead of the zero point.
void pads_with_integer_zero(Program& p) {
  const std::vector<int64_t> padding = p.ops[0].get(attr::kPadding);
  const ProgramTensor x = input(p, 0);
  if (!x.qparams) return;
  std::vector<int64_t> pads = {0, 0, 0, 0}, shape = x.shape;
  for (size_t d = 0; d < padding.size(); ++d) {
    pads.insert(pads.end(), {padding[d], padding[d]});
    shape[2 + d] += 2 * padding[d];
  }
  ProgramTensor padded = x;
  padded.name = "padded";
  padded.role = ProgramTensor::Role::kIntermediate;
  padded.shape = shape;
  padded.sizes.clear();
  p.tensors.push_back(padded);
  const int index = static_cast<int>(p.tensors.size()) - 1;
  ProgramOp pad;
  pad.kind = pad.name = "pad";
  pad.inputs = {p.ops[0].inputs[0]};
  pad.outputs = {index};
  pad.attributes = {{"pads", pads},
                    {"value", double{x.qparams->scale[0]} * (0 - x.qparams->zero_point[0])}};
  p.ops[0].inputs[0] = index;
  p.ops[0].attributes["padding"] = std::vector<int64_t>(padding.size(), 0);
  p.ops.insert(p.ops.begin(), pad);
}

// ---- wrong integers

int64_t clamped(int64_t value, int64_t least, int64_t most) {
  return std::clamp(value, least, most);
}

// ---- changes of results

template <typename T>
void set_last(std::vector<Tensor>& outputs, T change) {
  Tensor& y = outputs[0];
  if (y.numel() == 0) return;
  std::byte* last = y.raw() + (y.numel() - 1) * static_cast<int64_t>(size_of(y.dtype()));
  change(last, size_of(y.dtype()));
}

// ---- the backend

class MutantSegment : public CompiledSegment {
 public:
  MutantSegment(Program program, const Segment& segment, int threads)
      : program_(std::move(program)), mutant_(*current), threads_(threads) {
    Segment whole = segment;
    const bool is_single = segment.ops.size() == 1;
    if (is_single && program_.op(segment.ops[0]).kind == mutant_.kind) {
      change(whole);
    } else {
      is_wrong_ = false;
    }
    inner_ = ReferenceBackend().compile(program_, whole, 1);
  }

  void run(std::span<const Tensor> inputs, std::span<Tensor> outputs) override {
    if (!is_wrong_) return inner_->run(inputs, outputs);
    std::vector<Tensor> results;
    for (const Tensor& output : outputs)
      results.push_back(Tensor::zeros(output.dtype(), output.shape()));
    if (writes_) results[0] = Tensor::zeros(DType::kFloat32, outputs[0].shape());
    inner_->run(inputs, results);
    if (writes_) results[0] = written(results[0], outputs[0]);
    if (mutant_.after) mutant_.after(results, runs_++, threads_);
    for (size_t i = 0; i < results.size(); ++i)
      std::memcpy(outputs[i].raw(), results[i].raw(), outputs[i].nbytes());
  }

 private:
  void change(Segment& segment) {
    const size_t at = static_cast<size_t>(segment.ops[0]);
    if (at != 0) std::swap(program_.ops[0], program_.ops[at]);
    const size_t before = program_.ops.size();
    if (mutant_.change) mutant_.change(program_);
    if (at != 0) std::swap(program_.ops[0], program_.ops[at]);
    if (program_.ops.size() != before) segment.ops = {0, 1};
    ProgramTensor& y = program_.tensor(segment.outputs[0]);
    if (!mutant_.write || !y.qparams) return;
    writes_ = true;
    qparams_ = *y.qparams;
    dtype_ = y.dtype;
    y.dtype = DType::kFloat32;
    y.qparams.reset();
  }

  Tensor written(const Tensor& real, const Tensor& like) const {
    Tensor y = Tensor::zeros(dtype_, like.shape());
    const IntegerRange range = integer_range(dtype_);
    for (int64_t i = 0; i < y.numel(); ++i) {
      const double steps = double{real.data<float>()[i]} / double{qparams_.scale[0]};
      const int64_t value = mutant_.write(steps, qparams_.zero_point[0], range.min, range.max);
      std::memcpy(y.raw() + i * static_cast<int64_t>(size_of(dtype_)), &value, size_of(dtype_));
    }
    return y;
  }

  Program program_;
  Mutant mutant_;
  int threads_;
  bool is_wrong_ = true, writes_ = false;
  TensorQParams qparams_;
  DType dtype_ = DType::kFloat32;
  int runs_ = 0;
  std::unique_ptr<CompiledSegment> inner_;
};

class MutantBackend : public Backend {
 public:
  std::string name() const override { return "mutant"; }
  std::map<std::string, std::string> versions() const override { return {}; }
  std::unique_ptr<CompiledSegment> compile(const Program& program, const Segment& segment,
                                           int threads) const override {
    return std::make_unique<MutantSegment>(program, segment, threads);
  }
};

class MutantSupport : public BackendSupport {
 public:
  std::string name() const override { return "mutant"; }
  std::map<std::string, std::string> versions() const override { return {}; }
  Verdict accepts(const Program& program, const ProgramOp& op) const override {
    return ReferenceSupport().accepts(program, op);
  }
};

int64_t nearest(double value) { return static_cast<int64_t>(std::nearbyint(value)); }

std::vector<Mutant> all_mutants() {
  const Attribute one = int64_t{1};
  const auto fn = [](const char* name) { return with("fn", std::string(name)); };
  std::vector<Mutant> list = {
      {"conv pads with the integer 0", "conv", pads_with_integer_zero},
      {"conv swaps strides", "conv", reversed_list("stride")},
      {"conv drops padding_end", "conv", without("padding_end")},
      {"conv swaps paddings", "conv", reversed_list("padding")},
      {"conv drops the bias", "conv", no_input(2)},
      {"conv ignores post_min", "conv", without("post_min")},
      {"conv ignores post_max", "conv", without("post_max")},
      {"conv ignores the zero point of x", "conv", no_zero_point(0)},
      {"conv takes one scale for all channels", "conv", first_scale_for_all(1)},
      {"conv reads scales from the end", "conv", reversed_scales(1)},
      {"conv packs weights one off", "conv", rolled_constant(1, 1)},
      {"conv takes the bias one off", "conv", rolled_constant(2, 1)},
      {"conv scales 1 % too much", "conv", scaled(1, 1.01f)},
      {"conv_transpose drops the bias", "conv_transpose", no_input(2)},
      {"conv_transpose swaps channels", "conv_transpose", rolled_constant(1, 1)},
      {"conv_transpose takes one scale", "conv_transpose", first_scale_for_all(1)},
      {"conv_transpose ignores the zero point", "conv_transpose", no_zero_point(0)},
      {"linear drops the bias", "linear", no_input(2)},
      {"linear ignores the zero point of x", "linear", no_zero_point(0)},
      {"linear takes one scale for all rows", "linear", first_scale_for_all(1)},
      {"linear reads scales from the end", "linear", reversed_scales(1)},
      {"linear ignores post_max", "linear", without("post_max")},
      {"linear packs weights one off", "linear", rolled_constant(1, 1)},
      {"matmul ignores the zero point of b", "matmul", no_zero_point(1)},
      {"matmul takes the scale of a for b", "matmul", scaled(1, 1 / 1.7f)},
      {"recurrent drops the bias", "recurrent", no_input(2)},
      {"recurrent ignores reverse", "recurrent", without("reverse")},
      {"recurrent reads the state one off", "recurrent", rolled_constant(1, 9)},
      {"attention ignores the mask", "attention", no_input(3)},
      {"attention ignores the scale", "attention", without("scale")},
      {"attention ignores the softcap", "attention", without("softcap")},
      {"attention swaps keys and values", "attention", swapped(1, 2)},
      {"attention swaps the scales of its caches", "attention",
       [](Program& p) {
         if (p.ops[0].inputs.size() == 6) std::swap(p.ops[0].inputs[4], p.ops[0].inputs[5]);
       }},
      {"quantize_dynamic ignores quant_min", "quantize_dynamic", without("quant_min")},
      {"add ignores alpha", "add", without("alpha")},
      {"add takes the scale of a for b", "add", scaled(1, 1 / 1.7f)},
      {"add ignores the zero point of b", "add", no_zero_point(1)},
      {"add writes a zero point too many", "add", result_zero_point(1)},
      {"sub swaps its operands", "sub", swapped(0, 1)},
      {"sub ignores alpha", "sub", without("alpha")},
      {"mul ignores the zero point of a", "mul", no_zero_point(0)},
      {"mul ignores post_min", "mul", without("post_min")},
      {"div swaps its operands", "div", swapped(0, 1)},
      {"minimum is the maximum", "minimum", as("maximum")},
      {"maximum ignores a zero point", "maximum", no_zero_point(1)},
      {"gelu is the approximation", "unary",
       [](Program& p) {
         if (p.ops[0].get(attr::kFn) == "gelu")
           p.ops[0].attributes["fn"] = std::string("gelu_tanh");
       }},
      {"every function is sigmoid", "unary", fn("sigmoid")},
      {"unary ignores the zero point", "unary", no_zero_point(0)},
      {"clamp ignores max", "clamp", without("max")},
      {"clamp ignores min", "clamp", without("min")},
      {"prelu shifts the slopes", "prelu", rolled_constant(1, 1)},
      {"where swaps its operands", "where",
       [](Program& p) {
         p.ops[0].kind = "add";
         p.ops[0].inputs.erase(p.ops[0].inputs.begin());
       }},
      {"softmax along the first dimension", "softmax", with("dim", int64_t{0})},
      {"softmax without exponent's scale", "softmax", scaled(0, 1.05f)},
      {"log_softmax is softmax", "log_softmax", as("softmax")},
      {"layer_norm drops the bias", "layer_norm", no_input(2)},
      {"layer_norm drops the weight", "layer_norm", no_input(1)},
      {"layer_norm with a large eps", "layer_norm", with("eps", 0.1)},
      {"rms_norm is centered", "rms_norm", as("layer_norm")},
      {"batch_norm drops the bias", "batch_norm", no_input(4)},
      {"batch_norm swaps mean and bias", "batch_norm", swapped(1, 4)},
      {"group_norm with one group", "group_norm", with("groups", one)},
      {"max_pool ignores padding's offset", "max_pool", result_zero_point(1)},
      {"avg_pool counts the padding wrong", "avg_pool", flip("count_include_pad", true)},
      {"avg_pool ignores the zero point", "avg_pool", no_zero_point(0)},
      {"mean over other pixels", "mean", result_zero_point(-1)},
      {"reduce takes min for max", "reduce",
       [](Program& p) {
         if (p.ops[0].get(attr::kFn) == "max") p.ops[0].attributes["fn"] = std::string("min");
       }},
      {"upsample flips align_corners", "upsample", flip("align_corners")},
      {"slice starts one off", "slice", with("start", int64_t{0})},
      {"cat changes the zero point", "cat", result_zero_point(1)},
      {"pad ignores its value", "pad", without("value")},
      {"pad swaps low and high", "pad", reversed_list("pads")},
      {"permute reverses its dimensions", "permute",
       [](Program& p) {
         if (p.tensor(p.ops[0].inputs[0]).shape[0] != p.tensor(p.ops[0].outputs[0]).shape[0])
           return;
         p.ops[0].kind = "reshape";
         p.ops[0].attributes.clear();
       }},
      {"flip copies", "flip", with("dims", std::vector<int64_t>{})},
      {"quantize ignores its range", "quantize", [](Program& p) { p.ops[0].attributes.clear(); }},
      {"quantize ignores quant_min", "quantize", without("quant_min")},
      {"requantize ignores its range", "requantize",
       [](Program& p) { p.ops[0].attributes.clear(); }},
      {"requantize ignores the zero point", "requantize", no_zero_point(0)},
      {"dequantize ignores the zero point", "dequantize", no_zero_point(0)},
      {"embedding takes one scale for all rows", "embedding", first_scale_for_all(0)},
      {"gather along another dimension", "gather",
       [](Program& p) { p.ops[0].attributes["dim"] = int64_t{1} - p.ops[0].get(attr::kDim); }},
  };
  for (const char* kind : {"conv", "linear", "add", "mul", "requantize", "mean", "softmax"}) {
    list.push_back({"truncates", kind, {}, [](double s, int64_t z, int64_t a, int64_t b) {
                      return clamped(static_cast<int64_t>(s) + z, a, b);
                    }});
    list.push_back({"rounds down", kind, {}, [](double s, int64_t z, int64_t a, int64_t b) {
                      return clamped(static_cast<int64_t>(std::floor(s)) + z, a, b);
                    }});
    list.push_back(
        {"wraps instead of clamping", kind, {}, [](double s, int64_t z, int64_t, int64_t) {
           return nearest(s) + z;
         }});
    list.push_back(
        {"never writes the least", kind, {}, [](double s, int64_t z, int64_t a, int64_t b) {
           return clamped(nearest(s) + z, a + 1, b);
         }});
  }
  const auto garble = [](std::byte* last, size_t size) { std::memset(last, 0x55, size); };
  list.push_back({"leaves the last element", "conv", {}, {}, [=](std::vector<Tensor>& y, int, int) {
                    set_last(y, garble);
                  }});
  list.push_back(
      {"is wrong in the second run", "linear", {}, {}, [=](std::vector<Tensor>& y, int run, int) {
         if (run > 0) set_last(y, garble);
       }});
  list.push_back(
      {"is wrong with two threads", "add", {}, {}, [=](std::vector<Tensor>& y, int, int threads) {
         if (threads > 1) set_last(y, garble);
       }});
  list.push_back(
      {"writes nothing", "add", {}, {}, [](std::vector<Tensor>& y, int, int) { y.clear(); }});
  list.push_back({"writes nothing in the second run",
                  "max_pool",
                  {},
                  {},
                  [](std::vector<Tensor>& y, int run, int) {
                    if (run > 0) y.clear();
                  }});
  list.push_back({"fails", "softmax", {}, {}, [](std::vector<Tensor>&, int, int) {
                    throw std::runtime_error("out of SRAM");
                  }});
  list.push_back(
      {"throws a number", "mean", {}, {}, [](std::vector<Tensor>&, int, int) { throw 7; }});
  for (const char* kind : {"conv", "linear", "add", "softmax", "reshape", "max_pool"})
    list.push_back({"fails without rows", kind, {}, {}, [](std::vector<Tensor>& y, int, int) {
                      if (y[0].numel() == 0) throw std::runtime_error("no rows");
                    }});
  list.push_back({"keeps the results of the first run",
                  "unary",
                  {},
                  {},
                  [first = std::vector<Tensor>()](std::vector<Tensor>& y, int run, int) mutable {
                    if (run == 0) {
                      first.clear();
                      for (const Tensor& tensor : y) {
                        first.push_back(Tensor::zeros(tensor.dtype(), tensor.shape()));
                        std::memcpy(first.back().raw(), tensor.raw(), tensor.nbytes());
                      }
                    } else if (first[0].nbytes() == y[0].nbytes()) {
                      y = first;
                    }
                  }});
  return list;
}

}  // namespace

const std::vector<Mutant>& mutants() {
  static const std::vector<Mutant> list = all_mutants();
  return list;
}

void use_mutant(const Mutant& mutant) {
  if (!current)
    register_backend(
        "mutant", [] { return std::make_unique<MutantBackend>(); },
        [] { return std::make_unique<MutantSupport>(); });
  current = mutant;
}

}  // namespace octet
