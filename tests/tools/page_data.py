"""Data of report pages that no model gives: a large one with every field, and a hostile one."""
import math
import random


def error_of(db, rng):
    return {"sqnr_db": round(db, 2), "mse": 10 ** (-db / 10), "cosine": 1 - 0.5 * 10 ** (-db / 10), "max_abs": rng.uniform(0.01, 1), "max_steps": rng.uniform(0.5, 30)}


def histogram(rng, bins=256):
    center = rng.uniform(-0.3, 0.3)
    counts = [int(40000 * math.exp(-0.5 * (8 * (i / bins - 0.5 - 0.3 * center)) ** 2)) for i in range(bins)]
    return {"min": -4.0, "max": 4.0, "counts": counts}


def product(rng, channels):
    low = [-rng.uniform(0.1, 1.5) for _ in range(channels)]
    return {"axis": 0, "dtype": "s8", "min": low, "max": [rng.uniform(0.1, 1.5) for _ in range(channels)],
            "scale": [-2 * value / 255 for value in low], "sqnr_db": [rng.gauss(40, 4) for _ in range(channels)]}


def large(ops=2000, channels=256, modules=True):
    """Blocks of ten ops in stages, as in a transformer; `ops` and one input and output."""
    rng = random.Random(7)
    kinds = ["layer_norm", "linear", "linear", "matmul", "softmax", "matmul", "linear", "add", "gelu", "add"]
    nodes = [{"name": "x", "target": "placeholder", "status": "input", "dtype": "f32", "shape": [1, 197, 768], "inputs": []}]
    last = block_input = "x"
    for i in range(ops):
        kind, block = kinds[i % 10], i // 10
        name = f"{kind}_{i}"
        db = 46 - 22 * i / ops + rng.gauss(0, 4)
        is_float = kind in ("layer_norm", "softmax")
        node = {"name": name, "target": f"aten.{kind}.default", "module": f"encoder.stages.{block // 20}.blocks.{block % 20}.{kind}" if modules else "",
                "module_type": f"torch.nn.modules.{kind.title()}", "stack_trace": f'  File "model.py", line {i}, in forward\n    x = self.{kind}(x)\n' * 4,
                "inputs": [last, block_input] if kind == "add" else [last], "dtype": "f32", "shape": [1, 197, 768], "status": "float" if is_float else "quantized",
                "macs": 197 * 768 * 768 if kind in ("linear", "matmul") else None,
                "errors": {"accumulated": error_of(db, rng), "isolated": error_of(db + 12, rng), "lowering": {**error_of(60, rng), "sqnr_db": "inf"} if i % 3 else error_of(70, rng)},
                "rank": None, "latency_us": round(rng.expovariate(1 / 40), 2), "backend": "reference" if is_float else "onednn"}
        if is_float:
            node["reason"] = f"{kind} has no rule in the quantizer x86"
        else:
            clipped = max(0.0, rng.gauss(0.002, 0.004))
            node["output"] = {"dtype": "s8", "scale": 0.0234, "zero_point": rng.randint(-20, 20), "range": [-2.9, 3.0], "clipped_share": clipped, "histogram": histogram(rng)}
            node["samples"] = {"index": [[0, i, 96] for i in range(4)], "float": [0.1, -0.25, 3.4, 1.0], "quantized": [0.0936, -0.2574, 3.0, 1.0062]}
        if kind == "linear":
            node["weight"] = product(rng, channels)
        nodes.append(node)
        last = name
        block_input = name if kind == "add" else block_input
    worst = sorted(nodes[1:], key=lambda node: node["errors"]["accumulated"]["sqnr_db"])[:25]
    for rank, node in enumerate(worst, 1):
        node.update(rank=rank, cause="clipped", explanation=f"{rank}.1 % of the elements lie outside of [-2.9, 3]",
                    suggestion={"module_name": {node["module"]: {"observer": "mse"}}})
    nodes.append({"name": "output", "target": "output", "status": "output", "inputs": [last]})
    points = [{"latency_ms": 4 + 0.6 * i, "sqnr_db": 21 + 7 * math.log(i + 1), "label": f"{i} ops float", "config": {"module_name": {"a": None}}, "chosen": i == 3} for i in range(9)]
    points.append({"latency_ms": 8.0, "sqnr_db": 22.0, "label": "per tensor"})
    return {"kind": "compare", "title": "transformer.pt2", "subtitle": "x86, static, oneDNN",
            "summary": [["SQNR", "24.1 dB to float (median; worst 22.9 dB), over 8 batches"], ["int8", "97.2 % of the multiply-accumulates"], ["latency", "61 ms, float 142 ms"]],
            "notes": ["scale: 3 tensors got finer ones"], "nodes": nodes, "pareto": points}


HOSTILE = [
    "</script><script>window.taken = 1; alert(1)</script>",
    "<img src=x onerror=\"window.taken = 2; alert(2)\">",
    "<!--<script>",
    "\"'><svg onload=alert(3)>",
    "javascript:alert(4)",
    "\u202egnp.exe \u2066 \u05d0\u05d1\u05d2 \u0627\u0644\u0639",
    "__proto__", "constructor", "toString", "hasOwnProperty",
    "{{data}} ${window.taken = 3} `${alert(5)}`",
    "]]> &lt;b&gt; &amp; \u2028 \u2029 \u0000 \ud7ff \ufffe",
    "n" * 5000,
    "=HYPERLINK(\"http://example.com\")",
    "", " ", "..", ".a.", "x" + "." * 200,
]


def hostile():
    """Every text of the page is hostile, and so are the relations: loops, names that occur twice or nowhere."""
    nodes = []
    for i, text in enumerate(HOSTILE):
        nodes.append({"name": text, "target": text, "module": text, "module_type": text, "stack_trace": text, "inputs": [HOSTILE[i - 1], text, "nowhere"],
                      "dtype": text, "shape": [1, -1, 3], "status": ["quantized", "float", "other", text][i % 4], "reason": text, "members": [text, text], "cause": text,
                      "explanation": text, "suggestion": {text: text}, "backend": text, "rule": text, "rank": i, "macs": 10 ** 18, "latency_us": 0,
                      "errors": {"accumulated": {"sqnr_db": ["inf", "-inf", None, -3.5][i % 4]}, text: {"sqnr_db": 1}},
                      "output": {"dtype": text, "scale": 1e-30, "zero_point": 0, "range": ["-inf", "inf"], "clipped_share": 0, "histogram": {"min": 0, "max": 0, "counts": [1, 0]}},
                      "samples": {"index": [text, [i, text]], "float": ["inf", 1], "quantized": [None, text]}, "weight": {"axis": 0, "name": text, "min": [None, 1], "max": [1, "inf"], "scale": [], "sqnr_db": [None, "inf"]}, "tensors": [[text, text]]})
    nodes.append(dict(nodes[0]))
    nodes.append({"name": "bare", "target": "t"})
    text = HOSTILE[0]
    return {"kind": text, "title": text, "subtitle": HOSTILE[1], "summary": [[name, name] for name in HOSTILE], "notes": HOSTILE, "nodes": nodes,
            "pareto": [{"latency_ms": 1, "sqnr_db": "inf", "label": text, "config": {text: text}}, {"latency_ms": 2, "sqnr_db": 3, "label": HOSTILE[1], "chosen": True},
                       {"latency_ms": None, "sqnr_db": None, "label": ""}]}
