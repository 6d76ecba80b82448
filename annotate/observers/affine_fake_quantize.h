// Fake-quants with one scale for each block of elements: a group of a weight's row, a token,
// whatever granularity (affine.h).
#pragma once

#include <memory>

#include "annotate/observers/affine.h"
#include "annotate/observers/fake_quantize.h"

namespace octet {

// Gradients are 1 inside of a block's quantized range and 0 outside of it. Dynamic specs take the
// range of each batch. Registered as "affine_fake_quantize", with an affine observer in
// parentheses, else the moving average; the affine options are the observer's. convert makes of it
// what it makes of the observer inside.
class AffineFakeQuantize : public FakeQuantize {
 public:
  // Throws Error("prepare", ...) for targets that are no integers.
  AffineFakeQuantize(ObserverArgs args, std::shared_ptr<AffineObserver> observer);

  const AffineObserver& affine() const { return *affine_; }
  // As FakeQuantize; dynamic ranges are those of the batch whether the observer is on or not.
  void observe(const at::Tensor& x) override;
  // One scale and zero point per block, in row-major order.
  void set_qparams(const at::Tensor& scale, const at::Tensor& zero_point) override;

 protected:
  void update_qparams() override;
  at::Tensor round(const at::Tensor& x, double share) override;

 private:
  std::shared_ptr<AffineObserver> affine_;  // the observer
};

// Throws Error("prepare", ...) for observers that are not affine.
std::shared_ptr<Observer> make_affine_fake_quantize(const ObserverArgs& args);

// The observer as an affine one, or the one in its fake-quant; null for others.
const AffineObserver* find_affine_observer(const Observer& observer);

}  // namespace octet
