"""Checks that every test that tests/conformance.csv names exists.  conformance.py ROOT"""
import csv, pathlib, re, sys

GENERATED = ("rnd_xnnpack_", "rnd_rules_", "rnd_x86_")  # tests/oracle/cases_random.py


def known_tests(root):
    """file stem -> names of its test cases; files of equal names together"""
    tests = {}
    for path in (root / "tests").rglob("test_*.cpp"):
        # A long name is several literals, which the compiler joins; the tags follow after a comma.
        names = re.findall(r'TEST_CASE\(\s*((?:"[^"]*"\s*)+)', path.read_text())
        names = ["".join(re.findall('"([^"]*)"', name)) for name in names]
        tests.setdefault(path.stem, []).extend(names)
    return tests


def known_cases(root):
    names = list(GENERATED)
    for path in root.glob("tests/oracle/cases_*.py"):
        names += re.findall(r'^(?:case|real)\("(\w+)"', path.read_text(), re.M)
    return names


def missing_in(cell, tests, cases, files):
    """What the last column of one row names and nobody has."""
    current = None
    for part in (text.strip() for text in cell.split(";")):
        named = re.match(r"(test_\w+): (.*)", part)
        if part.startswith("golden "):
            for case in re.findall(r"\w+_\w*\*?", part[7:]):
                if case not in tests and not any(name == case or (case[-1] == "*" and name.startswith(case[:-1])) for name in cases):
                    yield f"golden case {case}"
        elif named or (current and part not in tests and ".py" not in part):
            current, words = named.groups() if named else (current, part)
            if not any(words in name for name in tests.get(current, [])):
                yield f"{current}: {words}"
        else:
            yield from (name for name in re.findall(r"\w+\.py", part) if name not in files)


def main():
    root = pathlib.Path(sys.argv[1])
    tests, cases = known_tests(root), known_cases(root)
    files = {path.name for folder in ("tests", "tools") for path in (root / folder).rglob("*.py")}
    with open(root / "tests/conformance.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    missing = [f"{row['behavior']}: {name}" for row in rows for name in missing_in(row["test"], tests, cases, files)]
    print(*missing, f"{len(rows)} rows, {len(missing)} tests are missing", sep="\n")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
