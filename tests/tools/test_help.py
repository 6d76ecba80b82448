"""--help: every argument of every command says what it is for."""
import re
import subprocess
import unittest

from support import OCTET

COLUMN = 30  # where the help text begins
ENTRY = re.compile(r"^  (?=\S)(.*)$")


def help_of(*command):
    return subprocess.run([OCTET, *command, "--help"], check=True, capture_output=True,
                          text=True).stdout


def entries(text):
    """(argument, what is said about it) of each option, positional and subcommand."""
    found = []
    for line in text.splitlines():
        if ENTRY.match(line):
            found.append([line[2:].rstrip(), ""])
            # A short one has its text in the same line, after its name, type and default.
            parts = re.fullmatch(r"  (\S+(?: \S+)*?)  +(\S.*)",
                                 line[:COLUMN] + "  " + line[COLUMN:])
            if len(line) > COLUMN and line[COLUMN - 1] == " " and parts:
                found[-1] = [parts[1], parts[2]]
        elif line.startswith(" " * (COLUMN - 1)) and found:
            found[-1][1] += line.strip()
    return found


class Help(unittest.TestCase):
    def test_every_argument_has_a_text(self):
        commands = [name for name, _ in entries(help_of().partition("Subcommands:")[2])]
        self.assertGreaterEqual(len(commands), 11)
        count = 0
        for command in [(), *((name,) for name in commands)]:
            for name, said in entries(help_of(*command)):
                count += 1
                with self.subTest(command=command, argument=name):
                    self.assertGreater(len(said), 4)
        self.assertGreater(count, 120)

    def test_what_has_none_is_told(self):
        text = ("Options:\n"
                "  -h,--help                   Print this\n"
                "  --epochs INT:POSITIVE=1     \n"
                "  --calibration TEXT REQUIRED torch.save of a list\n"
                "  --weight-decay FLOAT:NONNEGATIVE=0\n"
                "  --long-one TEXT:{static,dynamic}=static\n"
                "                              static or dynamic\n")
        self.assertEqual([name for name, said in entries(text) if not said],
                         ["--epochs INT:POSITIVE=1", "--weight-decay FLOAT:NONNEGATIVE=0"])

    def test_it_says_where_errors_are_explained(self):
        self.assertIn("What errors mean", help_of())


if __name__ == "__main__":
    unittest.main()
