"""`octet qat --device DEVICE` of the package: the command's options, trained by octet.qat()."""

import argparse
import logging
import os
import sys

import octet
from octet._quantize import check_form


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(2, f"octet: qat: {message}; --help lists the options\n")


def _report(path: str) -> str:
    if path.endswith(".model-explorer.json"):
        raise argparse.ArgumentTypeError(f"{path}: only --device cpu writes this form")
    if not path.endswith((".html", ".json")):
        raise argparse.ArgumentTypeError(f"{path}: want a name that ends in .html or .json")
    return path


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="octet qat", allow_abbrev=False, argument_default=argparse.SUPPRESS)
    parser.add_argument("model")
    for flag in ("--quantizer", "--output"):
        short = ["-o"] if flag == "--output" else []
        parser.add_argument(*short, flag, required=True)
    parser.add_argument("--report", type=_report)
    parser.add_argument("--library", action="append", default=[])
    parser.add_argument("--allow-op", action="extend", type=lambda ops: ops.split(","), default=[])
    parser.add_argument("--quiet", action="store_true", default=False)
    kinds = {"int": int, "float": float}
    for name, _, signature in octet._octet.arguments("qat"):
        flag, kind = f"--{name.replace('_', '-')}", signature.split()[1]
        if kind == "bool":
            parser.add_argument(flag, action="store_true")
        else:
            is_required = signature == "train: Data"
            parser.add_argument(flag, type=kinds.get(kind, str), required=is_required)
    return parser


def _check_outputs(output, report, inputs):
    """Fails before the long work begins, as the command does."""
    check_form(output)
    for path in (output, report) if report else (output,):
        octet._octet.check_output(path, [os.path.abspath(name) for name in inputs])
    if report and os.path.realpath(report) == os.path.realpath(output):
        raise octet.Error(
            "qat",
            report,
            "is named by --output and by --report, want a separate file for each output; name "
            "another one",
        )


def _check_processes():
    """mpirun sets one of these variables (tools/cli/processes/processes.cpp)."""
    counts = [os.environ.get(name, "") for name in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE")]
    if any(count.isdigit() and int(count) > 1 for count in counts):
        raise octet.Error("qat", "--device", "trains in one process; leave out mpirun")


def _train(given):
    command = ("model", "quantizer", "output", "report", "library", "allow_op")
    model, quantizer, output, report, libraries, ops = (given.pop(n, None) for n in command)
    quantizers = quantizer.split(",")
    kinds = {name: kind for name, kind, _ in octet._octet.arguments("qat")}
    files = [value for name, value in given.items() if kinds[name] != "text"]
    _check_processes()
    _check_outputs(output, report, [model, *quantizers, *libraries, *files])
    for library in libraries:
        octet.load_library(library)
    for op in ops:
        octet.allow_op(op)
    q = octet.qat(model, quantizers, **given)
    q.save(output)
    if report:
        q.report.save(report)


def main(arguments: list[str]) -> int:
    """Returns the exit status, after a line on stderr if it is not 0."""
    given = vars(_parser().parse_args(arguments))
    logging.basicConfig(format="octet: %(message)s")
    logging.getLogger("octet").setLevel("WARNING" if given.pop("quiet") else "INFO")
    try:
        _train(given)
    except octet.Error as error:
        print(f"octet: {error}", file=sys.stderr)
        return 1
    except RuntimeError as error:  # of torch, such as a device without memory
        print(f"octet: torch: {str(error).strip().partition(chr(10))[0]}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
