"""What training on several machines costs: a table from one measured step and a network's figures.

  cost.py --seconds 1.9 --megabytes 14 --exchanges 105

Gradients go around a ring: each of p machines sends and gets 2 (p - 1) pieces of n / p bytes (P. Patarasuk, X. Yuan: "Bandwidth optimal all-reduce
algorithms for clusters of workstations", JPDC 69, 2009):

  ring(n, p) = 2 (p - 1) (latency + n / (p * bandwidth))

The small exchanges double their reach in each round (recursive doubling; R. Thakur, R. Rabenseifner, W. Gropp: "Optimization of collective
communication operations in MPICH", IJHPCA 19, 2005):

  small(n, p) = ceil(log2 p) (latency + n / bandwidth)

Nothing overlaps: a step is its rows' work, then all of its exchanges.
"""
import argparse
import math
import sys

MACHINES = (1, 2, 4, 8, 16, 32, 64)


def ring(count, total, latency, bandwidth):
    """Seconds of one sum of `total` bytes over `count` machines."""
    return 2 * (count - 1) * (latency + total / (count * bandwidth))


def small(count, total, latency, bandwidth):
    return math.ceil(math.log2(count)) * (latency + total / bandwidth)


def rows(options):
    """For each number of machines: (machines, network, step and speedup with the same batch, step and efficiency with a batch as many times larger), in seconds."""
    latency, bandwidth = options.latency * 1e-6, options.bandwidth * 1e9 / 8
    table = []
    for count in MACHINES:
        network = ring(count, options.megabytes * 1e6, latency, bandwidth)
        network += options.exchanges * small(count, options.small_bytes, latency, bandwidth)
        same = options.fixed + (options.seconds - options.fixed) / count + network
        larger = options.seconds + network
        table.append((count, network, same, options.seconds / same, larger, options.seconds / larger))
    return table


def positive(text):
    value = float(text)
    if not (value > 0 and math.isfinite(value)):
        raise argparse.ArgumentTypeError(f"want a number above 0, got {text}")
    return value


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=positive, required=True, help="of a step of one process with the whole batch")
    parser.add_argument("--fixed", type=float, default=0, help="of these, what does not shrink with the rows: weights' rounding, the optimizer")
    parser.add_argument("--megabytes", type=positive, required=True, help="of gradients a step; `octet qat` under mpirun says them, and the next two")
    parser.add_argument("--exchanges", type=int, default=0, help="small ones a step: ranges and batch norms")
    parser.add_argument("--small-bytes", type=float, default=1024, help="of each of them, about")
    parser.add_argument("--latency", type=positive, default=30, help="microseconds of a message between two machines")
    parser.add_argument("--bandwidth", type=positive, default=10, help="gigabits a second of a machine's link")
    options = parser.parse_args(arguments)
    if not 0 <= options.fixed < options.seconds:
        parser.error(f"--fixed: want 0 or more and less than --seconds {options.seconds}, got {options.fixed}")
    return options


def main(arguments):
    options = parse(arguments)
    print("| machines | network | step, same batch | times as fast | step, a batch each | of ideal |")
    print("|---|---|---|---|---|---|")
    for count, network, same, speedup, larger, efficiency in rows(options):
        print(f"| {count} | {1e3 * network:.1f} ms | {1e3 * same:.0f} ms | {speedup:.2f} | {1e3 * larger:.0f} ms | {100 * efficiency:.0f} % |")


if __name__ == "__main__":
    main(sys.argv[1:])
