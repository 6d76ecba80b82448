"""An .octet file is a safetensors file: Python's own reader takes it and sees the constants.

usage: check_artifact.py TEST_LOWERING FOLDER
"""
import json
import os
import subprocess
import sys

import numpy
from safetensors import safe_open

program, folder = sys.argv[1:3]
os.makedirs(folder, exist_ok=True)
path = os.path.join(folder, "conv.octet")
subprocess.run([program, "[.artifact]"], env={**os.environ, "OCTET_ARTIFACT": path}, check=True)
with safe_open(path, framework="np") as file:
    metadata = file.metadata()
    assert metadata["format"] == "octet" and metadata["version"] == "2", metadata
    described = json.loads(metadata["program"])
    constants = {t["name"]: t for t in described["tensors"] if t["role"] == 2}
    assert constants, "the program has constants"
    for name, tensor in constants.items():
        data = file.get_tensor(name)
        assert list(data.shape) == tensor["shape"], name
        assert str(data.dtype) == tensor["dtype"], name
        if tensor.get("qparams", {"axis": -1})["axis"] >= 0:
            assert list(file.get_tensor(name + ":scale").shape) == [tensor["shape"][tensor["qparams"]["axis"]]], name
        assert numpy.abs(data.astype("float64")).sum() > 0, name
print("ok:", ", ".join(sorted(constants)))
