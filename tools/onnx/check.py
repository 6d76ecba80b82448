#!/usr/bin/env python3
"""Models of the zoo as ONNX files: what onnx's checker says of them, and how near ONNX Runtime and
OpenVINO come to the q/dq graph interpreted.   check.py --work DIR [--only REGEX] [--table FILE]

Wants onnx and onnxruntime, and openvino for its column (tools/bench/requirements-peers.txt). What is
in DIR already is not done again.
"""
import argparse
import json
import multiprocessing
import os
import re
import sys
import traceback
import warnings

warnings.filterwarnings("ignore")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "zoo"))
import torch  # noqa: E402

import catalog  # noqa: E402
import steps  # noqa: E402
from runner import model_folder, write_result  # noqa: E402

# Some networks of each kind; --only selects others.
MODELS = (
    "torchvision/resnet18", "torchvision/mobilenet_v2", "torchvision/mobilenet_v3_small",
    "torchvision/squeezenet1_1", "torchvision/shufflenet_v2_x0_5", "torchvision/mnasnet0_5",
    "torchvision/efficientnet_b0", "torchvision/regnet_y_400mf", "torchvision/densenet121",
    "torchvision/googlenet", "torchvision/convnext_tiny", "torchvision/swin_t",
    "torchvision/lraspp_mobilenet_v3_large", "timm/deit_tiny_distilled_patch16_224",
    "timm/ghostnet_100", "timm/hrnet_w18_small", "timm/mixer_s32_224", "transformers/albert",
    "transformers/bert", "transformers/distilbert", "transformers/gpt2", "transformers/llama",
    "transformers/t5", "transformers/segformer", "transformers/vit", "transformers/whisper")
CONFIGURATIONS = ("float", *steps.CONFIGURATIONS)
NEAR = 40  # dB to the graph
AS_NEAR = 1  # dB further from float than the graph
INTEGER = {"QLinearConv", "QLinearMatMul", "QGemm", "MatMulInteger", "MatMulIntegerToFloat",
           "DynamicQuantizeMatMul", "ConvInteger", "MatMulNBits"}
REAL = {"Conv", "FusedConv", "ConvTranspose", "MatMul", "FusedMatMul", "Gemm", "FusedGemm", "Einsum",
        "Attention", "MultiHeadAttention"}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", required=True, help="the folder of models and results")
    parser.add_argument("--only", help="models whose names have a match of this; default: %s" %
                        ", ".join(MODELS))
    parser.add_argument("--configurations", default="x86-static",
                        help=f"these of {', '.join(CONFIGURATIONS)}, with commas")
    parser.add_argument("--table", help="a Markdown file to write at the end")
    parser.add_argument("--redo", action="store_true", help="export and compare again")
    return parser.parse_args()


def quantized(folder, configuration):
    """The program of a configuration."""
    if configuration == "float":
        return os.path.join(folder, "model.pt2")
    target = os.path.join(folder, configuration, "q.pt2")
    if not os.path.exists(target):
        quantizer, mode = configuration.split("-")
        os.makedirs(os.path.dirname(target), exist_ok=True)
        data = ("--calibration", os.path.join(folder, "calibration.pt")) if mode == "static" else ()
        steps.command("quantize", "quantize", os.path.join(folder, "model.pt2"), "--quantizer",
                      quantizer, "--mode", mode, *data, "--output", target)
    return target


def references(program, folder):
    """Inputs by the program's order, what the graph gives for them, and what the float network."""
    pairs = []
    floats = torch.load(os.path.join(folder, "y.pt"))
    for path, real in zip(steps.held_out(folder), floats):
        output = os.path.join(folder, "y_reference.pt")
        steps.command("reference", "run", program, "--inputs", path, "--outputs", output)
        inputs = [x for x in torch.load(path) if isinstance(x, torch.Tensor)]
        pairs.append((inputs, torch.load(output, weights_only=True)[0], real))
    return pairs


def figures(pairs, run):
    """SQNR over all pairs together to the graph and to float, and the share of rows whose largest
    element is the graph's."""
    results = [run(inputs) for inputs, _, _ in pairs]
    wanted, floats = [want for _, want, _ in pairs], [real for _, _, real in pairs]
    same = [(want.argmax(-1) == got.argmax(-1)).float().mean().item() if want.dim() else 1.0
            for want, got in zip(wanted, results)]
    return {"sqnr": steps.sqnr(wanted, results), "to_float": steps.sqnr(floats, results),
            "top1": sum(same) / len(same)}


def ort_figures(path, pairs, is_optimized):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = (levels.ORT_ENABLE_ALL if is_optimized
                                        else levels.ORT_DISABLE_ALL)
    if is_optimized:
        options.optimized_model_filepath = path + ".optimized"
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]

    def run(inputs):
        feed = {name: x.numpy() for name, x in zip(names, inputs)}
        return torch.from_numpy(session.run(None, feed)[0])
    result = figures(pairs, run)
    if is_optimized:
        result["int8"] = integer_share(path + ".optimized")
        os.remove(path + ".optimized")
    return result


def integer_share(path):
    """The share of products on integers among all products."""
    import onnx
    kinds = [node.op_type for node in onnx.load(path, load_external_data=False).graph.node]
    integer, real = (sum(kind in some for kind in kinds) for some in (INTEGER, REAL))
    return integer / max(integer + real, 1)


def openvino_figures(path, pairs):
    import openvino
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(path), "CPU",
                                  {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1,
                                   "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0"})
    return figures(pairs, lambda inputs: torch.from_numpy(
        compiled([x.numpy() for x in inputs])[0].copy()))


def apart(step):
    """What a step gives, in a separate process: a crash is a result, too."""
    def work(sender):
        try:
            result = step()
        except Exception as error:
            text = str(error).strip().splitlines() or [type(error).__name__]
            result = {"failed": text[-1][-300:]}
        sender.send(result)
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(sender,))
    process.start()
    sender.close()
    try:
        result = receiver.recv()
    except EOFError:
        result = {"failed": "crashes"}
    process.join()
    return result


def check(entry, folder, configuration):
    import onnx
    os.makedirs(folder, exist_ok=True)
    if not os.path.exists(os.path.join(folder, "y.pt")):
        steps.export(entry, folder)
    program = quantized(folder, configuration)
    path = os.path.join(folder, configuration + ".onnx")
    steps.command("export", "export", program, "--onnx", path)
    onnx.checker.check_model(path, full_check=True)
    pairs = references(program, folder)
    result = {"graph": steps.sqnr([real for _, _, real in pairs], [want for _, want, _ in pairs])}
    result["plain"] = apart(lambda: ort_figures(path, pairs, False))
    result["optimized"] = apart(lambda: ort_figures(path, pairs, True))
    result["openvino"] = apart(lambda: openvino_figures(path, pairs))
    os.remove(path)
    return result


def decibels(value):
    return "not finite" if value is None else "exact" if value >= 999 else f"{value:.0f}"


def checked(entry, folder, configuration):
    try:
        return check(entry, folder, configuration)
    except steps.Failed as failure:
        return {"failed": str(failure)[-400:]}
    except Exception as error:
        traceback.print_exc()
        return {"failed": (str(error).strip() or type(error).__name__)[-400:]}


def cell(figures_of):
    """dB to the graph; dB to float; equal top-1."""
    if "failed" in figures_of:
        return figures_of["failed"].replace("|", "/")[:60]
    return (f"{decibels(figures_of['sqnr'])}; {decibels(figures_of['to_float'])}; "
            f"{100 * figures_of['top1']:.1f} %")


def row(name, configuration, result):
    if "failed" in result:
        return f"| {name} | {configuration} | | {result['failed'].replace('|', '/')} | | | |"
    share = result["optimized"].get("int8")
    cells = [cell(result[key]) for key in ("plain", "optimized", "openvino")]
    share = "" if share is None else f"{100 * share:.0f} %"
    return f"| {name} | {configuration} | {share} | {decibels(result['graph'])} | " + \
        " | ".join(cells) + " |"


def is_near(result, key):
    """Near the graph, or as near to float as the graph is: rounding that falls otherwise in one
    layer moves all that follow."""
    figures_of = result.get(key, {})
    if figures_of.get("sqnr") is None:
        return False
    return figures_of["sqnr"] >= NEAR or figures_of["to_float"] >= result["graph"] - AS_NEAR


def main():
    options = arguments()
    pattern = options.only or "^(" + "|".join(MODELS) + ")$"
    entries = [entry for entry in catalog.all_entries() if re.search(pattern, entry.name)]
    lines = ["| model | quantized | integer products | graph | ONNX Runtime, not optimized "
             "| optimized | OpenVINO |", "|---|---|---|---|---|---|---|"]
    near, count = dict.fromkeys(("plain", "optimized", "openvino"), 0), 0
    for entry in entries:
        for configuration in options.configurations.split(","):
            folder = model_folder(os.path.abspath(options.work), entry.name)
            stored = os.path.join(folder, configuration + ".onnx.json")
            if options.redo or not os.path.exists(stored):
                print(f"check: {entry.name} {configuration}", file=sys.stderr, flush=True)
                write_result(stored, checked(entry, folder, configuration))
            with open(stored) as file:
                result = json.load(file)
            lines.append(row(entry.name, configuration, result))
            print(lines[-1], flush=True)
            count += 1
            for key in near:
                near[key] += is_near(result, key)
    print(f"of {count} programs near the graph, or as near to float as the graph:",
          ", ".join(f"{number} {key}" for key, number in near.items()))
    if options.table:
        with open(options.table, "w") as file:
            file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
