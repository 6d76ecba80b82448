#!/usr/bin/env python3
"""Latency of int8 and float programs beside the peers: OpenVINO, ONNX Runtime, Inductor (compiled ahead of time), ExecuTorch and eager PyTorch, in one run,
in turns. octet_xnnpack and octet_xnnpack13 are Octet on XNNPACK, beside ExecuTorch: the installed release, and Debian 13's in the root of tools/dev/debian13.sh.

    race.py [--models a,b] [--peers x,y] [--variants float,bfloat16,int8,int8_bfloat16,int8dyn] [--threads 1,2] [--rounds N] [--folder DIR] [--binaries DIR] [--stages setup,export,build,run,report]

Stages: setup installs the peers at pinned versions in .venv-peers (beside .venv, whose packages it sees); export writes models and data (tools/models/export.py);
build quantizes each model with each peer's own quantizer; run starts a worker for each entrant and gives them bursts in turns, A B C A B C; report prints
ratios and fidelity as tables and writes latency.svg. What is there already is not made again: remove DIR/MODEL/PEER to build again.
Times are medians over rounds of the medians within bursts; bursts beside which other processes took a core are dropped, when enough others are left.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, "..", ".."))
PYTHON = os.path.join(ROOT, ".venv-peers", "bin", "python")

sys.path.insert(0, HERE)
from race_peers import PROGRAM_SUFFIX, TRANSFORMERS, VARIANTS  # noqa: E402

MODELS = ["resnet18", "resnet50", "mobilenet_v2", "efficientnet_lite0", "minilm", "vit_small"]
PEERS = [peer for peer in VARIANTS if not peer.startswith("octet_")]  # unless others are asked for
STAGES = ["setup", "export", "build", "run", "report"]
BURST_SECONDS = 0.25
LEAST_CLEAN_BURSTS = 4
FOREIGN_SHARE = 0.12  # of one core, that other processes may take during a burst


def environment(threads=None):
    values = dict(os.environ, HF_HUB_OFFLINE="1", TORCHINDUCTOR_COMPILE_THREADS="1", TOKENIZERS_PARALLELISM="false", PYTHONWARNINGS="ignore")
    if threads:
        values.update(OMP_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads))
    return values


# ---- set-up, export, build

def setup():
    requirements = os.path.join(HERE, "requirements-peers.txt")
    stamp = os.path.join(ROOT, ".venv-peers", "installed")
    wanted = open(requirements).read()
    if os.path.exists(stamp) and open(stamp).read() == wanted:
        return
    subprocess.run([os.path.join(ROOT, ".venv", "bin", "python"), "-m", "venv", os.path.join(ROOT, ".venv-peers")], check=True)
    packages = subprocess.run([PYTHON, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], check=True, capture_output=True, text=True).stdout.strip()
    own = packages.replace(".venv-peers", ".venv")
    with open(os.path.join(packages, "project.pth"), "w") as file:
        file.write(own + "\n")
    subprocess.run([PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", requirements], check=True)
    with open(stamp, "w") as file:
        file.write(wanted)


def logged(command, log):
    """Runs a step; its output goes to a file, of which the last line is shown when it fails."""
    with open(log, "w") as file:
        code = subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, env=environment()).returncode
    if code:
        lines = [line for line in open(log).read().splitlines() if line.strip()]
        print(f"{' '.join(command[2:])}: {lines[-1] if lines else 'no output'} (all of it: {log})", file=sys.stderr)
    return code == 0


def export(model, folder):
    if not os.path.exists(os.path.join(folder, "float.pt")):
        os.makedirs(folder, exist_ok=True)
        logged([PYTHON, os.path.join(ROOT, "tools", "models", "export.py"), model, "--out", folder], folder + ".log")


def build(peer, folder):
    done = os.path.join(folder, peer, "done")
    if not os.path.exists(done) and logged([PYTHON, os.path.join(HERE, "race_peers.py"), "build", peer, folder], f"{folder}/build_{peer}.log"):
        open(done, "w").close()


def operations(folder):
    """Multiplications and additions of one run, in 10^9."""
    code = ("import sys, torch\nfrom torch.utils.flop_counter import FlopCounterMode\n"
            "module = torch.export.load(sys.argv[1] + '/model.pt2').module(check_guards=False)\n"
            "counter = FlopCounterMode(display=False)\n"
            "with counter: module(*torch.load(sys.argv[1] + '/inputs/00.pt'))\nprint(counter.get_total_flops() / 1e9)")
    return float(subprocess.run([PYTHON, "-c", code, folder], check=True, capture_output=True, text=True, env=environment()).stdout.split()[-1])


# ---- run

class Entrant:
    """A worker process of one peer and variant, with what its bursts gave."""

    def __init__(self, peer, variant, folder, threads):
        self.peer, self.variant = peer, variant
        self.bursts, self.clean, self.facts, self.error = [], [], {}, None
        self.log = os.path.join(folder, f"run_{peer}_{variant}_{threads}.log")
        self.process = subprocess.Popen([PYTHON, os.path.join(HERE, "race_peers.py"), "work", peer, variant, folder, str(threads)], text=True, bufsize=1,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=open(self.log, "w"), env=environment(threads))

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            rest = [text for text in open(self.log).read().splitlines() if text.strip()]
            raise RuntimeError(rest[-1] if rest else "the worker ended")
        return line.strip()

    def ask(self, request):
        """The answer, or None; after an error the entrant is out."""
        if self.error:
            return None
        try:
            if request:
                self.process.stdin.write(request + "\n")
            return self.answer()
        except (RuntimeError, BrokenPipeError) as error:
            self.error = str(error)[:200]
            return None

    def burst(self, threads):
        before, start = processor_seconds(), time.perf_counter()
        answer = self.ask(f"BENCH {BURST_SECONDS}")
        if answer is None:
            return
        elapsed, used = time.perf_counter() - start, processor_seconds() - before
        self.facts = json.loads(answer)
        self.bursts.append(self.facts["median_ms"])
        if used < (threads + FOREIGN_SHARE) * elapsed + 0.02:
            self.clean.append(self.bursts[-1])

    def result(self):
        if self.error:
            return {"error": self.error}
        bursts = self.clean if len(self.clean) >= LEAST_CLEAN_BURSTS else self.bursts
        quarters = statistics.quantiles(bursts, n=4) if len(bursts) > 1 else bursts * 3
        return {"median_ms": statistics.median(bursts), "spread_ms": quarters[2] - quarters[0], "clean": len(self.clean), "bursts": len(self.bursts),
                **{key: self.facts[key] for key in ("load_ms", "start_rss_mb", "peak_rss_mb")}}


def processor_seconds():
    """What all processes of the machine used since it started."""
    fields = [int(x) for x in open("/proc/stat").readline().split()[1:]]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


def library_mb(peer):
    return float(subprocess.run([PYTHON, os.path.join(HERE, "race_peers.py"), "size", peer], check=True, capture_output=True, text=True).stdout.split()[-1])


def kernel_peak(threads):
    """The most that oneDNN's own kernels reach right now, in 10^9 operations per second: {"int8": ..., "float": ...}."""
    return json.loads(subprocess.run([os.path.join(os.environ["OCTET_BINARIES"], "octet_kernel_peak")], check=True, capture_output=True, text=True, env=environment(threads)).stdout)


def race(model, folder, peers, variants, threads, rounds, evaluated):
    entrants = [Entrant(peer, variant, folder, threads) for peer in peers for variant in VARIANTS[peer]
                if variant in variants and (variant != "int8dyn" or model in TRANSFORMERS)]
    for entrant in entrants:
        entrant.ask("")  # READY
    peaks = []
    for _ in range(rounds):
        peaks.append(kernel_peak(threads))
        for entrant in entrants:
            entrant.burst(threads)
    results = []
    for entrant in entrants:
        outputs = f"{folder}/outputs_{entrant.peer}_{entrant.variant}.pt"
        if threads == 1 and evaluated:
            entrant.ask(f"EVAL {outputs} {evaluated}")
        result = {"model": model, "peer": entrant.peer, "variant": entrant.variant, "threads": threads, **entrant.result()}
        program = os.path.join(folder, entrant.peer, entrant.variant + PROGRAM_SUFFIX.get(entrant.peer, ""))
        if not entrant.error and os.path.isfile(program):
            result["file_mb"] = os.path.getsize(program) / 1e6
        if not entrant.error and os.path.exists(outputs):
            result["outputs"] = outputs
        results.append(result)
        print(f"{model:20s} {entrant.peer:11s} {entrant.variant:8s} {threads} thread(s)  " + (result.get("error") or
              f"{result['median_ms']:8.3f} ms, spread {result['spread_ms']:.3f}, {result['clean']} of {result['bursts']} bursts clean"), file=sys.stderr, flush=True)
        if entrant.process.poll() is None:
            entrant.process.stdin.close()
            try:
                entrant.process.wait(20)
            except subprocess.TimeoutExpired:  # a peer's threads may outlive its work
                entrant.process.kill()
    best = {kind: max(peak[kind] for peak in peaks) for kind in peaks[0]}
    return results, {"model": model, "threads": threads, **best}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words = lambda text: text.split(",")
    parser.add_argument("--models", type=words, default=MODELS)
    parser.add_argument("--peers", type=words, default=PEERS, help=f"of {', '.join(VARIANTS)}; octet_xnnpack13 after tools/dev/debian13.sh")
    parser.add_argument("--variants", type=words, default=VARIANTS["octet"])
    parser.add_argument("--threads", type=words, default=["1", "2"])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--evaluated", type=int, default=24, help="held-out inputs for the fidelity, 0 for none")
    parser.add_argument("--folder", default=os.path.join(ROOT, "build", "race"))
    parser.add_argument("--binaries", default=os.path.join(ROOT, "build", "release", "bin"), help="where octet and octet_kernel_peak are, built for release")
    parser.add_argument("--stages", type=words, default=STAGES)
    options = parser.parse_args()
    for given, known, what in ((options.models, MODELS, "model"), (options.peers, VARIANTS, "peer"), (options.stages, STAGES, "stage")):
        for name in given:
            if name not in known:
                parser.error(f"unknown {what} {name}, want one of {', '.join(known)}")
    os.environ["OCTET_BINARIES"] = os.path.abspath(options.binaries)  # for race_peers.py, too
    folder = lambda model: os.path.join(options.folder, model)
    if "setup" in options.stages:
        setup()
    for model in options.models:
        if "export" in options.stages:
            export(model, folder(model))
        for peer in options.peers:
            if "build" in options.stages:
                build(peer, folder(model))
    path = os.path.join(options.folder, "results.json")
    if "run" in options.stages:
        measured = json.load(open(path)) if os.path.exists(path) else {"results": [], "peaks": [], "gop": {}}
        measured["library_mb"] = {**measured.get("library_mb", {}), **{peer: library_mb(peer) for peer in options.peers}}
        key = lambda row: (row["model"], row.get("peer"), row.get("variant"), row["threads"])
        for model in options.models:
            measured["gop"][model] = operations(folder(model))
            for threads in map(int, options.threads):
                results, peak = race(model, folder(model), options.peers, options.variants, threads, options.rounds, options.evaluated)
                for name, rows in (("results", results), ("peaks", [peak])):
                    new = {key(row) for row in rows}
                    measured[name] = [row for row in measured[name] if key(row) not in new] + rows
                with open(path, "w") as file:
                    json.dump(measured, file, indent=1)
    if "report" in options.stages:
        subprocess.run([PYTHON, os.path.join(HERE, "race_report.py"), options.folder], check=True)


if __name__ == "__main__":
    main()
