"""Numbers for untrained networks under which a quantized network's error says something: nothing
that multiplies is zero, and batch norms know the data."""
import torch
from torch import nn

LEAST_FACTOR = 1e-2  # a constant factor of this size or below (LayerScale) lets nothing through
LEAST_GAIN = 0.5  # of a product, for inputs of independent signs


def _is_norm(module):
    return "norm" in type(module).__name__.lower() or isinstance(module, nn.GroupNorm)


def _strengthen(module):
    """Products whose weights are so small that little of their input is left get weights that keep
    its size. Returns the number of changes."""
    is_transposed = type(module).__name__ == "Conv1D"  # transformers: [in, out]
    if not isinstance(module, (nn.Linear, nn.modules.conv._ConvNd)) and not is_transposed:
        return 0
    weight = module.weight
    inputs = weight.shape[0] if is_transposed else weight[0].numel()
    gain = weight.pow(2).mean().sqrt().item() * inputs ** 0.5
    if not 0 < gain < LEAST_GAIN:
        return 0
    weight.copy_(weight / gain)
    return 1


def wake(net, seed=0):
    """Gives values to what is initialized with zeros or with one tiny factor: heads, biases,
    tables, the last norms of residual blocks, LayerScale. Makes weights that are too small larger.
    Returns the number of tensors it changed."""
    generator = torch.Generator().manual_seed(seed)
    changed = 0
    with torch.no_grad():
        for module in net.modules():
            for name, parameter in module.named_parameters(recurse=False):
                if not parameter.is_floating_point() or parameter.numel() == 0:
                    continue
                first = parameter.flatten()[0]
                if not torch.all(parameter == first) or abs(first) > LEAST_FACTOR:
                    continue
                noise = torch.randn(parameter.shape, generator=generator)
                is_factor = first != 0 or "scale" in name or "gamma" in name
                if is_factor or (_is_norm(module) and name == "weight"):
                    value = 0.4 + 0.1 * noise
                elif parameter.squeeze().dim() <= 1:  # biases, single tokens, gates
                    value = 0.05 * noise
                else:
                    value = noise / max(parameter[0].numel(), 1) ** 0.5
                parameter.copy_(value)
                changed += 1
            changed += _strengthen(module)
    return changed


def settle_batch_norms(net, batches):
    """Batch norms get mean and variance of these inputs, which run through the network together;
    dropout stays off."""
    norms = [m for m in net.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    norms = [norm for norm in norms if norm.track_running_stats]
    net.eval()
    if not norms:
        return
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the mean over all passes
        norm.train()
    with torch.no_grad():
        together = [torch.cat(column) for column in zip(*batches)]
        for _ in range(2):
            net(*together)
    net.eval()


def has_finite_outputs(outputs):
    return all(bool(torch.isfinite(y).all()) for y in outputs if y.is_floating_point())
