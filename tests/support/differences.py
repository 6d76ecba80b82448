"""The frame of the scripts that hold Octet's files beside PyTorch's or torchao's results, model by model."""
import pathlib
import subprocess
import sys


def compare(names, differences):
    """`differences(name)` yields what differs for a model. Prints a line for each; 1 when there is any or no model, else 0."""
    failures = 0
    for name in names:
        try:
            found = list(differences(name))
        except subprocess.CalledProcessError as error:
            found = [(error.stderr or str(error)).strip()[:400]]
        except Exception as error:  # a file that does not load is a finding too
            found = [f"{type(error).__name__}: {error}"[:400]]
        for difference in found:
            print(f"{name}: {difference}")
            failures += 1
    print(f"{len(names)} models, {failures} differences")
    return 1 if failures or not names else 0


def run(models, differences):
    """SCRIPT OCTET WORK: compares by `differences(octet, work, name)`, WORK being made."""
    octet, work = sys.argv[1], pathlib.Path(sys.argv[2])
    work.mkdir(parents=True, exist_ok=True)
    return compare(models, lambda name: differences(octet, work, name))
