#!/usr/bin/env python3
"""Many known networks through Octet: exported, quantized, lowered, run, and compared with float
PyTorch and with torchao.   zoo.py --work DIR [--only REGEX] [--tables FOLDER]

What is in DIR already is not done again, so that a run can be stopped and continued. Weights are
seeded; nothing is downloaded.
"""
import argparse
import os
import re
import sys
import warnings

warnings.filterwarnings("ignore")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import catalog  # noqa: E402
import steps  # noqa: E402
import table  # noqa: E402
from runner import PARTS, TIMED, Job, Runner, read_result  # noqa: E402


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", required=True, help="the folder of models and results")
    parser.add_argument("--only", default="", help="models whose names have a match of this")
    parser.add_argument("--configurations", default="",
                        help=f"these of {', '.join(steps.CONFIGURATIONS)}, with commas")
    parser.add_argument("--parts", default="octet,peer,time",
                        help="of octet,peer,time,openvino: what is done after the export")
    parser.add_argument("--redo", default="", help="parts to do again for these models")
    parser.add_argument("--short", action="store_true", help="a dozen tiny models")
    parser.add_argument("--jobs", type=int, default=1, help="processes; times are taken by one")
    parser.add_argument("--keep", action="store_true", help="keep quantized and lowered programs")
    parser.add_argument("--tables", help="a folder for the results as CSV")
    parser.add_argument("--list", action="store_true", help="print the names of the models")
    options = parser.parse_args()
    wanted = options.configurations or ",".join(steps.CONFIGURATIONS)
    options.configurations = [c for c in steps.CONFIGURATIONS if c in wanted.split(",")]
    for name in options.parts.split(",") + list(filter(None, options.redo.split(","))):
        if name not in PARTS:
            parser.error(f"no part {name}, want of {', '.join(PARTS)}")
    return options


def preload(parts, entries):
    """What the processes of the jobs, forked from this one, then have without loading it."""
    if any(entry.name.startswith("transformers/") for entry in entries):
        import transformers  # noqa: F401
    if "peer" in parts:
        import torchao.quantization.pt2e.quantize_pt2e  # noqa: F401
        steps.fidelity_rows.xnnpack_peer(False)
    steps.fidelity_rows.register_ops()


def run(entries, options):
    runner = Runner(os.path.abspath(options.work), options.jobs)
    for name in filter(None, options.redo.split(",")):
        for entry in entries:
            for configuration in [""] if name == "export" else options.configurations:
                runner.forget(Job(entry, name, configuration))
    preload(options.parts, entries)
    batch = max(1, options.jobs)
    for start in range(0, len(entries), batch):
        some = entries[start:start + batch]
        runner.run([Job(entry, "export") for entry in some])
        exported = [entry for entry in some
                    if "failed" not in (read_result(runner.work, entry.name, "export") or {})]
        for part in PARTS[1:]:
            if part in options.parts.split(","):
                jobs = [Job(entry, part, name) for entry in exported
                        for name in options.configurations
                        if part != "openvino" or name == steps.RACED]
                runner.run(jobs, at_a_time=1 if part in TIMED else None)
        if not options.keep:
            for entry in exported:
                runner.clean(entry)


def main():
    options = arguments()
    entries = catalog.short_entries() if options.short else catalog.all_entries()
    entries = [entry for entry in entries if re.search(options.only, entry.name)]
    if options.list:
        print("\n".join(entry.name for entry in entries))
        return
    run(entries, options)
    if options.tables:
        table.write_tables(options.work, entries, options.tables)
    print("\n".join(table.summary(options.work, entries)))


if __name__ == "__main__":
    main()
