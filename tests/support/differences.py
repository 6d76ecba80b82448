"""The frame of the scripts that hold Octet's files beside PyTorch's or torchao's results, model by model."""
import pathlib
import subprocess
import sys


def run(models, differences):
    """SCRIPT OCTET WORK: `differences(octet, work, name)` yields what differs for a model. Prints a line for each; 1 when there is any, else 0."""
    octet, work = sys.argv[1], pathlib.Path(sys.argv[2])
    work.mkdir(parents=True, exist_ok=True)
    failures = 0
    for name in models:
        try:
            found = list(differences(octet, work, name))
        except subprocess.CalledProcessError as error:
            found = [error.stderr.strip()[:400]]
        for difference in found:
            print(f"{name}: {difference}")
            failures += 1
    print(f"{len(models)} models, {failures} differences")
    return 1 if failures else 0
