"""OpenVINO's int8 program of a model of the zoo, and Octet's, in turns on one thread.

    openvino_turns.py FOLDER PROGRAM.octet

FOLDER has model.pt2, calibration.pt, x0.pt .. and y.pt. Runs in .venv-peers, which `tools/bench/race.py
--stages setup` makes, and prints {"openvino_ms", "octet_ms", "sqnr"}: the least of some bursts'
medians, and the ratio in dB of OpenVINO's program to float.
"""
import json
import os
import sys

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench"))
import race_peers  # noqa: E402
import steps  # noqa: E402

ROUNDS = 5
SECONDS = 0.3
ATTENTION = ("scaled_dot_product_attention", "softmax")


def has_attention(model):
    targets = {str(node.target) for node in torch.export.load(model).graph.nodes}
    return any(word in target for target in targets for word in ATTENTION)


def main(folder, program):
    path = lambda name: os.path.join(folder, name)
    os.makedirs(path("openvino"), exist_ok=True)
    batches = [[x.numpy() for x in batch] for batch in torch.load(path("calibration.pt"))]
    race_peers.write_openvino(path("model.pt2"), batches, path("openvino"),
                              has_attention(path("model.pt2")))
    prepare, run, result = race_peers.run_openvino("int8", folder, path("openvino"), 1)
    held_out = steps.held_out(folder)
    outputs = [result(run(prepare(torch.load(x)))) for x in held_out]
    feed = prepare(torch.load(held_out[0]))
    bursts = [(steps.burst_ms(lambda: run(feed), SECONDS),
               steps.median_ms(program, held_out[0], SECONDS)) for _ in range(ROUNDS)]
    openvino, octet = (min(column) for column in zip(*bursts))
    print(json.dumps({"openvino_ms": openvino, "octet_ms": octet,
                      "sqnr": steps.sqnr(torch.load(path("y.pt")), outputs)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
