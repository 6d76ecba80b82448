"""`octet qat --device DEVICE` of the package: the command's options, trained by octet.qat()."""

import argparse
import logging
import sys

import octet


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        sys.exit(f"octet: qat: {message}; --help lists the options")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="octet qat", allow_abbrev=False, argument_default=argparse.SUPPRESS)
    parser.add_argument("model")
    for flag in ("--quantizer", "--output"):
        short = ["-o"] if flag == "--output" else []
        parser.add_argument(*short, flag, required=True)
    parser.add_argument("--report")
    for flag in ("--library", "--allow-op"):
        parser.add_argument(flag, action="extend", nargs="+", default=[])
    parser.add_argument("--quiet", action="store_true", default=False)
    kinds = {"int": int, "float": float}
    for name, _, signature in octet._octet.arguments("qat"):
        flag, kind = f"--{name.replace('_', '-')}", signature.split()[1]
        if kind == "bool":
            parser.add_argument(flag, action="store_true")
        else:
            parser.add_argument(flag, type=kinds.get(kind, str), required=signature == "train: Data")
    return parser


def main(arguments: list[str]) -> None:
    given = vars(_parser().parse_args(arguments))
    command = ("model", "quantizer", "output", "report", "library", "allow_op", "quiet")
    model, quantizer, output, report, libraries, ops, quiet = (given.pop(n, None) for n in command)
    logging.basicConfig(format="octet: %(message)s", level="WARNING" if quiet else "INFO")
    try:
        for library in libraries:
            octet.load_library(library)
        for op in ops:
            octet.allow_op(op)
        q = octet.qat(model, quantizer.split(","), **given)
        q.save(output)
        if report:
            q.report.save(report)
    except octet.Error as error:
        sys.exit(f"octet: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
