"""Prepare and convert beside the peers in one run: ResNet50 and MiniLM (random weights) through torchao's X86 flow and ExecuTorch's XNNPACK flow, and
through Octet; then chains of growing length.  flow_speed.py OCTET_FLOW_SPEED [--models resnet50,minilm] [--repeats N] [--no-chains]
The model is run once between the two steps, outside of the times, which are processor times of one thread."""
import argparse, json, logging, math, os, subprocess, sys, tempfile, time, warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "models"))
from torchvision_apart import torchvision_models

QUANTIZERS = {"x86": 10.0, "xnnpack": 30.0}  # the ratio wanted of each
CHAIN = (1000, 10000, 100000)


class MiniLM(torch.nn.Module):
    """all-MiniLM-L6's architecture, given its mask: the peer's flow breaks on the integer additions that make one."""

    def __init__(self):
        super().__init__()
        from transformers import BertConfig, BertModel
        config = BertConfig(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536, attn_implementation="sdpa")
        self.model = BertModel(config, add_pooling_layer=False)
        self.register_buffer("positions", torch.arange(128)[None])
        self.register_buffer("types", torch.zeros(1, 128, dtype=torch.int64))

    def forward(self, ids, mask):
        return self.model(input_ids=ids, attention_mask=mask, position_ids=self.positions, token_type_ids=self.types).last_hidden_state


def make_model(name):
    torch.manual_seed(0)
    if name == "resnet50":
        return torchvision_models().resnet50(weights=None).eval(), (torch.rand(1, 3, 224, 224),)
    return MiniLM().eval(), (torch.randint(1, 1000, (1, 128)), torch.zeros(1, 1, 1, 128))


def make_peer(name):
    if name == "x86":
        from torchao.quantization.pt2e.quantizer.x86_inductor_quantizer import X86InductorQuantizer, get_default_x86_inductor_quantization_config
        return X86InductorQuantizer().set_global(get_default_x86_inductor_quantization_config())
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config
    return XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True))


def measure_peer(path, inputs, name, repeats):
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    prepare, convert = math.inf, math.inf
    for _ in range(repeats):
        module = torch.export.load(path).module(check_guards=False)
        start = time.process_time()
        module = prepare_pt2e(module, make_peer(name))
        prepare = min(prepare, time.process_time() - start)
        with torch.no_grad():
            module(*inputs)
        start = time.process_time()
        convert_pt2e(module)
        convert = min(convert, time.process_time() - start)
    return {"prepare_ms": 1000 * prepare, "convert_ms": 1000 * convert}


def total(times):
    return times["prepare_ms"] + times["convert_ms"]


def compare_model(octet, name, repeats, folder):
    model, inputs = make_model(name)
    path = os.path.join(folder, name + ".pt2")
    with torch.no_grad():
        torch.export.save(torch.export.export(model, inputs, strict=name == "resnet50"), path)  # non-strict, its shared ReLUs break the peer
    missed = 0
    for quantizer, wanted in QUANTIZERS.items():
        ours = json.loads(subprocess.run([octet, path, quantizer, str(max(3, repeats))], check=True, capture_output=True, text=True).stdout)
        peer = measure_peer(path, inputs, quantizer, repeats)
        ratio = total(peer) / total(ours)
        missed += ratio < wanted
        print(f"{name:9s} {quantizer:8s} {ours['nodes']:4d} nodes   peer {peer['prepare_ms']:8.1f} + {peer['convert_ms']:8.1f} ms   "
              f"octet {ours['prepare_ms']:7.2f} + {ours['convert_ms']:7.2f} ms   {ratio:6.1f} times faster (want {wanted:.0f})", flush=True)
    return missed


def measure_chains(octet):
    worst = 0.0
    for quantizer in QUANTIZERS:
        lines = subprocess.run([octet, "--chain", quantizer, *map(str, CHAIN)], check=True, capture_output=True, text=True).stdout.splitlines()
        points = [(math.log(t["nodes"]), math.log(total(t))) for t in map(json.loads, lines)]
        mean_x, mean_y = (sum(p[i] for p in points) / len(points) for i in (0, 1))
        exponent = sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)
        worst = max(worst, exponent)
        times = ", ".join(f"{t['nodes']} nodes {total(t):.1f} ms" for t in map(json.loads, lines))
        print(f"chain     {quantizer:8s} {times}: time ~ nodes^{exponent:.2f}", flush=True)
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("octet", help="the program octet_flow_speed")
    parser.add_argument("--models", default="resnet50,minilm")
    parser.add_argument("--repeats", type=int, default=1, help="of the peers; the least time counts")
    parser.add_argument("--no-chains", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in filter(None, options.models.split(",")):
            missed += compare_model(options.octet, name, options.repeats, folder)
    if not options.no_chains:
        missed += measure_chains(options.octet) > 1.2
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
