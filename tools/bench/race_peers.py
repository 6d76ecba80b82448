"""What race.py knows of each peer: how its own quantizer makes an int8 program of a model, and how a program is loaded and run.

    race_peers.py build PEER FOLDER             quantizes and converts; artifacts go to FOLDER/PEER/
    race_peers.py work PEER VARIANT FOLDER N    a worker with N threads: prints READY, then answers BENCH SECONDS, EVAL FILE COUNT and QUIT on stdin
    race_peers.py compile VARIANT FOLDER N      Inductor's code for N threads, to FOLDER/inductor/; a worker calls this when it is not there yet
    race_peers.py size PEER                     MB of the libraries that run a program of this peer, 0 when that is not asked

FOLDER is what tools/models/export.py writes: model.pt2, calibration.pt, held_out.pt.
"""
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, "..", ".."))
BINARIES = os.environ.get("OCTET_BINARIES", os.path.join(ROOT, "build", "release", "bin"))
OCTET = os.path.join(BINARIES, "octet")

# peer: its variants, float first. int8dyn stands for transformers only. float and int8 compute what is float in float32. bfloat16 and int8_bfloat16 are the same
# programs as a peer runs them that computes it in bfloat16: Octet with --float-compute bfloat16, OpenVINO by default, where the CPU has AVX512-BF16 or AMX.
VARIANTS = {
    "octet": ["float", "bfloat16", "int8", "int8_bfloat16", "int8dyn"],
    "octet_xnnpack": ["float", "int8", "int8dyn"],
    "octet_xnnpack13": ["float", "int8", "int8dyn"],
    "openvino": ["float", "bfloat16", "int8", "int8_bfloat16"],
    "ort": ["float", "int8", "int8dyn"],
    "inductor": ["float", "int8", "int8dyn"],
    "executorch": ["float", "int8", "int8dyn"],
    "eager": ["float"],
}
IN_BFLOAT16 = {"bfloat16": "float", "int8_bfloat16": "int8"}  # the variant whose program it is
TRANSFORMERS = {"minilm", "vit_small"}
# What runs Octet's programs: (the quantizer, the backend, the command that measures the runtime, which the program's path follows). Of XNNPACK there are
# the installed release, and Debian 13's in the root that tools/dev/debian13.sh made.
OCTETS = {
    "octet": ("x86", "onednn", [os.path.join(BINARIES, "octet_runtime_bench")]),
    "octet_xnnpack": ("xnnpack", "xnnpack", [os.path.join(BINARIES, "octet_runtime_bench")]),
    "octet_xnnpack13": ("xnnpack", "xnnpack", [os.path.join(ROOT, "tools", "debian13.sh"), "--in", "build/debian13/build/bin/octet_runtime_bench"]),
}
PROGRAM_SUFFIX = {"openvino": ".bin", "ort": ".onnx", "executorch": ".pte", **{peer: ".octet" for peer in OCTETS}}
MODULES = {"openvino": ["openvino"], "ort": ["onnxruntime"], "executorch": ["executorch.runtime", "executorch.extension.pybindings.portable_lib"],
           "inductor": ["torch._inductor.config", "torchao.quantization.pt2e.quantizer.x86_inductor_quantizer"]}


def is_transformer(folder):
    return os.path.basename(os.path.normpath(folder)) in TRANSFORMERS


def load(folder, name):
    import torch
    return torch.load(os.path.join(folder, name))


def float_module(folder):
    import torch
    return torch.export.load(os.path.join(folder, "model.pt2")).module(check_guards=False)


# ---- build: FOLDER, and where this peer's artifacts go

def pt2e(folder, quantizer):
    """The peer's PT2E flow: prepare, calibrate, convert, export again."""
    import torch
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    batches = load(folder, "calibration.pt")
    with torch.no_grad():
        module = prepare_pt2e(float_module(folder), quantizer)
        for batch in batches:
            module(*batch)
        return torch.export.export(convert_pt2e(module), batches[0])


def build_octet(folder, out, quantizer, backend):
    def octet(*arguments):
        subprocess.run([OCTET, *arguments], check=True, stdout=subprocess.DEVNULL)
    model = os.path.join(folder, "model.pt2")
    program = lambda variant: os.path.join(out, variant + ".pt2")
    # The peers get this data too: OpenVINO's default smooths and corrects biases with it.
    data = ["--calibration", os.path.join(folder, "calibration.pt"), "--effort", "high"]
    octet("quantize", model, "--quantizer", quantizer, *data, "--output", program("int8"))
    octet("fuse", model, "--output", program("float"))
    variants = ["float", "int8"]
    if is_transformer(folder):
        octet("quantize", model, "--quantizer", quantizer, "--mode", "dynamic", *data, "--output", program("int8dyn"))
        variants.append("int8dyn")
    for variant in variants:
        octet("lower", program(variant), "--backend", backend, "--output", os.path.join(out, variant + ".octet"))
    if backend == "onednn":
        for variant, base in IN_BFLOAT16.items():
            octet("lower", program(base), "--backend", backend, "--float-compute", "bfloat16", "--output", os.path.join(out, variant + ".octet"))


def build_inductor(folder, out):
    import torch
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86
    for variant in ["int8", "int8dyn"][:2 if is_transformer(folder) else 1]:
        config = x86.get_default_x86_inductor_quantization_config(is_dynamic=variant == "int8dyn")
        torch.export.save(pt2e(folder, x86.X86InductorQuantizer().set_global(config)), os.path.join(out, variant + ".pt2"))


def without_shapes(path):
    """quantize_dynamic transposes the weight of a Gemm and then trips over the recorded shape of it."""
    import onnx
    model = onnx.load(path)
    del model.graph.value_info[:]
    onnx.save(model, path)


def build_ort(folder, out):
    import torch
    from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType, quantize_dynamic, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process
    batches = load(folder, "calibration.pt")
    names = [f"in{k}" for k in range(len(batches[0]))]
    path = lambda name: os.path.join(out, name + ".onnx")
    torch.onnx.export(torch.export.load(os.path.join(folder, "model.pt2")), batches[0], path("float"), dynamo=True, external_data=False, optimize=True,
                      input_names=names, output_names=["out"])
    quant_pre_process(path("float"), path("prepared"), skip_symbolic_shape=True)

    class Reader(CalibrationDataReader):
        def __init__(self):
            self.rest = iter(batches)

        def get_next(self):
            batch = next(self.rest, None)
            return batch and {name: x.numpy() for name, x in zip(names, batch)}

    quantize_static(path("prepared"), path("int8"), Reader(), quant_format=QuantFormat.QDQ, per_channel=True, activation_type=QuantType.QUInt8,
                    weight_type=QuantType.QInt8, calibrate_method=CalibrationMethod.MinMax,
                    op_types_to_quantize=["MatMul", "Gemm", "Conv"] if is_transformer(folder) else None)
    if is_transformer(folder):
        without_shapes(path("prepared"))
        quantize_dynamic(path("prepared"), path("int8dyn"), per_channel=True, weight_type=QuantType.QInt8)


def write_openvino(model, batches, out, is_transformer):
    """float.xml and int8.xml by OpenVINO's and NNCF's defaults; batches of numpy arrays, whose sizes the programs have."""
    import nncf
    import openvino
    import torch
    program = openvino.convert_model(torch.export.load(model))
    program.reshape({k: list(x.shape) for k, x in enumerate(batches[0])})
    openvino.save_model(program, os.path.join(out, "float.xml"), compress_to_fp16=False)
    quantized = nncf.quantize(openvino.Core().read_model(os.path.join(out, "float.xml")), nncf.Dataset(batches), subset_size=len(batches),
                              model_type=nncf.ModelType.TRANSFORMER if is_transformer else None)
    openvino.save_model(quantized, os.path.join(out, "int8.xml"), compress_to_fp16=False)


def build_openvino(folder, out):
    batches = [[x.numpy() for x in batch] for batch in load(folder, "calibration.pt")]
    write_openvino(os.path.join(folder, "model.pt2"), batches, out, is_transformer(folder))


def build_executorch(folder, out):
    import torch
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config
    from executorch.exir import to_edge_transform_and_lower

    def write(program, variant):
        lowered = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()]).to_executorch()
        with open(os.path.join(out, variant + ".pte"), "wb") as file:
            file.write(lowered.buffer)
    write(torch.export.load(os.path.join(folder, "model.pt2")), "float")
    for variant in ["int8", "int8dyn"][:2 if is_transformer(folder) else 1]:
        config = get_symmetric_quantization_config(is_per_channel=True, is_dynamic=variant == "int8dyn")
        write(pt2e(folder, XNNPACKQuantizer().set_global(config)), variant)


def build_eager(_folder, _out):
    pass


# ---- run: each gives (prepare, run, result): a tuple of tensors to the peer's form, one run, its output as a tensor

def torch_runner(module, threads):
    import torch
    torch.set_num_threads(threads)
    torch._C._set_grad_enabled(False)
    first = lambda y: y[0] if isinstance(y, (tuple, list)) else y
    return (lambda batch: batch), (lambda batch: module(*batch)), first


def run_eager(_variant, folder, _out, threads):
    return torch_runner(float_module(folder), threads)


def package_of(variant, out, threads):
    """Inductor's code is made for a number of threads."""
    return os.path.join(out, f"{variant}.{threads}.aoti.pt2")


def compile_inductor(variant, folder, out, threads):
    """Ahead of time, in C++, with frozen weights: of Inductor's forms the one that runs fastest at batch 1. It takes a minute or more, so it is kept."""
    import torch
    torch.set_num_threads(threads)
    with torch.no_grad():
        program = torch.export.load(os.path.join(folder, "model.pt2") if variant == "float" else os.path.join(out, variant + ".pt2"))
        made = torch._inductor.aoti_compile_and_package(program, package_path=os.path.join(out, f"{variant}.{threads}.unfinished.pt2"),
                                                        inductor_configs={"freezing": True})
    os.rename(made, package_of(variant, out, threads))


def run_inductor(variant, _folder, out, threads):
    import torch._inductor
    return torch_runner(torch._inductor.aoti_load_package(package_of(variant, out, threads)), threads)


def run_ort(variant, _folder, out, threads):
    import onnxruntime
    import torch
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(os.path.join(out, variant + ".onnx"), options, providers=["CPUExecutionProvider"])
    names = [x.name for x in session.get_inputs()]
    return (lambda batch: dict(zip(names, (x.numpy() for x in batch)))), (lambda feed: session.run(None, feed)), (lambda y: torch.from_numpy(y[0]))


def run_openvino(variant, _folder, out, threads):
    import openvino
    import torch
    settings = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1}
    if variant not in IN_BFLOAT16:
        settings["INFERENCE_PRECISION_HINT"] = "f32"
    request = openvino.Core().compile_model(os.path.join(out, IN_BFLOAT16.get(variant, variant) + ".xml"), "CPU", settings).create_infer_request()
    return ((lambda batch: {k: x.numpy() for k, x in enumerate(batch)}), (lambda feed: request.infer(feed, share_inputs=True, share_outputs=True)),
            (lambda y: torch.from_numpy(y[0].copy())))


def run_executorch(variant, _folder, out, threads):
    from executorch.extension.pybindings.portable_lib import _unsafe_reset_threadpool
    from executorch.runtime import Runtime
    _unsafe_reset_threadpool(threads)
    program = Runtime.get().load_program(os.path.join(out, variant + ".pte"))
    method = program.load_method("forward")
    method.keep = program
    return (lambda batch: list(batch)), method.execute, (lambda y: y[0].clone())


class OctetWorker:
    """Each burst is a process of the runtime alone, whose times leave out its start. Paths are from the project's folder, which Debian 13's root has elsewhere."""

    def __init__(self, peer, variant, folder, out, threads):
        self.command = [*OCTETS[peer][2], os.path.relpath(os.path.join(out, variant + ".octet"), ROOT), "--threads", str(threads)]
        self.scratch = os.path.join(out, f"raw_{variant}_{threads}")
        os.makedirs(self.scratch, exist_ok=True)
        self.inputs = self.write_inputs("first", load(folder, os.path.join("inputs", "00.pt")))

    def write_inputs(self, name, batch):
        options = []
        for k, x in enumerate(batch):
            path = os.path.join(self.scratch, f"{name}.{k}.raw")
            x.contiguous().numpy().tofile(path)
            options += ["--input", os.path.relpath(path, ROOT)]
        return options

    def call(self, *options):
        return json.loads(subprocess.run([*self.command, *options], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout)

    def bench(self, seconds):
        return self.call(*self.inputs, "--seconds", str(seconds))

    def outputs(self, batches):
        import numpy
        import torch
        path = os.path.join(self.scratch, "output.raw")
        for batch in batches:
            facts = self.call(*self.write_inputs("next", batch), "--output", os.path.relpath(path, ROOT), "--seconds", "0")
            yield torch.from_numpy(numpy.fromfile(path, dtype=numpy.float32)).reshape(facts["shape"])


def peak_rss_mb():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM:")) / 1024


class PeerWorker:
    """A peer within this process."""

    def __init__(self, peer, variant, folder, out, threads):
        run = globals()["run_" + peer]
        for name in MODULES.get(peer, []):  # Python's own loading of the library does not count as load time of the program
            importlib.import_module(name)
        if peer == "inductor" and not os.path.exists(package_of(variant, out, threads)):
            subprocess.run([sys.executable, os.path.abspath(__file__), "compile", variant, folder, str(threads)], check=True)  # its memory is not that of running
        self.start_rss_mb = peak_rss_mb()
        start = time.perf_counter()
        self.prepare, self.run, self.result = run(variant, folder, out, threads)
        batch = self.prepare(load(folder, os.path.join("inputs", "00.pt")))
        self.run(batch)
        self.batch, self.load_ms = batch, 1e3 * (time.perf_counter() - start)
        for _ in range(4):
            self.run(batch)

    def bench(self, seconds):
        times, end = [], time.perf_counter() + seconds
        while len(times) < 3 or time.perf_counter() < end:
            start = time.perf_counter()
            self.run(self.batch)
            times.append(1e3 * (time.perf_counter() - start))
        times.sort()
        return {"median_ms": times[len(times) // 2], "load_ms": self.load_ms, "start_rss_mb": self.start_rss_mb, "peak_rss_mb": peak_rss_mb()}

    def outputs(self, batches):
        for batch in batches:
            yield self.result(self.run(self.prepare(batch)))


def work(peer, variant, folder, threads):
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what the peers print goes to the log
    import torch
    out = os.path.join(folder, peer)
    worker = OctetWorker(peer, variant, folder, out, threads) if peer in OCTETS else PeerWorker(peer, variant, folder, out, threads)
    answers.write("READY\n")
    for line in sys.stdin:
        word, *rest = line.split()
        if word == "QUIT":
            break
        if word == "BENCH":
            answers.write(json.dumps(worker.bench(float(rest[0]))) + "\n")
        elif word == "EVAL":
            batches = load(folder, "held_out.pt")[:int(rest[1])]
            torch.save([y.clone() for y in worker.outputs(batches)], rest[0])
            answers.write("DONE\n")


def library_mb(peer):
    """The libraries that run a program, stripped, without those of other backends."""
    if peer == "executorch":
        import importlib.util
        folder = os.path.join(importlib.util.find_spec("executorch").submodule_search_locations[0], "lib")
        files = [os.path.join(folder, f"libexecutorch{part}.so") for part in ("", "_backend_xnnpack", "_threadpool")]
    elif peer in OCTETS:
        *prefix, binary = OCTETS[peer][2]
        # The backend's library is opened at run time, so it and what it needs are asked for by name.
        opened = os.path.join(ROOT, ".venv", "lib", "libdnnl.so.3")
        if peer != "octet":
            cache = subprocess.run([*prefix, "/sbin/ldconfig", "-p"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
            opened = next(line.split()[-1] for line in cache if line.split()[0].startswith("libXNNPACK.so.0"))
        lines = subprocess.run([*prefix, "ldd", binary, opened], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
        lines = sorted({line.split(" (")[0] for line in lines} | {f"{os.path.basename(opened)} => {opened}"})
        wanted = ("liboctet", "libdnnl", "libgomp") if peer == "octet" else ("liboctet", "libXNNPACK", "libpthreadpool", "libcpuinfo", "libkleidiai")
        files = [line.split()[2] for line in lines if " => /" in line and line.split()[0].startswith(wanted)]
        if prefix:  # as this system sees the paths of the root
            files = [path.replace("/octet", ROOT, 1) if path.startswith("/octet/") else os.path.join(ROOT, "build", "debian13", "root") + path for path in files]
    else:
        return 0
    total = 0
    with tempfile.TemporaryDirectory() as scratch:
        for file in files:
            subprocess.run(["strip", "-o", os.path.join(scratch, "stripped"), file], check=True)
            total += os.path.getsize(os.path.join(scratch, "stripped"))
    return total / 1e6


if __name__ == "__main__":
    if sys.argv[1] == "build":
        peer, folder = sys.argv[2:]
        os.makedirs(os.path.join(folder, peer), exist_ok=True)
        if peer in OCTETS:
            build_octet(folder, os.path.join(folder, peer), *OCTETS[peer][:2])
        else:
            globals()["build_" + peer](folder, os.path.join(folder, peer))
    elif sys.argv[1] == "compile":
        for name in MODULES["inductor"]:  # registers the rewrites
            importlib.import_module(name)
        compile_inductor(sys.argv[2], sys.argv[3], os.path.join(sys.argv[3], "inductor"), int(sys.argv[4]))
    elif sys.argv[1] == "size":
        print(library_mb(sys.argv[2]))
    else:
        work(sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]))
