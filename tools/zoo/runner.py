"""Runs the parts of models that have no result yet, each in a separate process, some at a time.
A result is a file WORK/source/model/part.json or WORK/source/model/configuration.part.json."""
import json
import multiprocessing
import os
import shutil
import sys
import time
from multiprocessing.connection import wait
from typing import NamedTuple

import torch

import steps

LIMIT = 1500  # seconds for a part
LONGEST_MESSAGE = 600
PARTS = ("export", "octet", "peer", "time", "openvino")
TIMED = ("time", "openvino")  # nothing of ours runs beside them


class Job(NamedTuple):
    entry: object
    part: str
    configuration: str = ""

    def __str__(self):
        return " ".join(filter(None, (self.entry.name, self.configuration, self.part)))


def model_folder(work, name):
    return os.path.join(work, *name.split("/"))


def result_path(work, name, part, configuration=""):
    file = ".".join(filter(None, (configuration, part, "json")))
    return os.path.join(model_folder(work, name), file)


def read_result(work, name, part, configuration=""):
    path = result_path(work, name, part, configuration)
    if not os.path.exists(path):
        return None
    with open(path) as file:
        return json.load(file)


def write_result(path, result):
    with open(path + ".part", "w") as file:
        json.dump(result, file, indent=1)
    os.replace(path + ".part", path)


def work_on(job, work):
    """In the process of the job."""
    torch.set_num_threads(1)
    folder = model_folder(work, job.entry.name)
    start = time.perf_counter()
    try:
        if job.part == "export":
            result = steps.export(job.entry, folder)
        else:
            result = getattr(steps, job.part)(folder, job.configuration)
    except steps.Failed as failure:
        result = {"failed": failure.step, "message": str(failure)[:LONGEST_MESSAGE]}
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
        result = {"failed": job.part, "message": message[:LONGEST_MESSAGE]}
    result["seconds"] = round(time.perf_counter() - start, 1)
    write_result(result_path(work, job.entry.name, job.part, job.configuration), result)


class Runner:
    def __init__(self, work, jobs):
        self.work, self.jobs = work, jobs
        self.running = {}  # sentinel: (process, job, start)

    def is_done(self, job):
        return os.path.exists(result_path(self.work, job.entry.name, job.part, job.configuration))

    def run(self, jobs, at_a_time=None):
        waiting = [job for job in jobs if not self.is_done(job)]
        for number, job in enumerate(waiting, 1):
            while len(self.running) >= (at_a_time or self.jobs):
                self.reap()
            print(f"zoo: {number}/{len(waiting)}: {job}", file=sys.stderr, flush=True)
            os.makedirs(model_folder(self.work, job.entry.name), exist_ok=True)
            process = multiprocessing.get_context("fork").Process(target=work_on,
                                                                  args=(job, self.work))
            process.start()
            self.running[process.sentinel] = (process, job, time.monotonic())
        while self.running:
            self.reap()

    def reap(self):
        """Waits a while, takes away what ended, and ends what takes too long."""
        wait(list(self.running), timeout=1)
        for sentinel, (process, job, start) in list(self.running.items()):
            message = None
            if time.monotonic() - start > LIMIT:
                process.kill()
                message = f"not done after {LIMIT} s"
            elif process.is_alive():
                continue
            process.join()
            if message is None and process.exitcode != 0:
                message = f"the process ended with {process.exitcode}"
            path = result_path(self.work, job.entry.name, job.part, job.configuration)
            if message is not None and not os.path.exists(path):
                write_result(path, {"failed": job.part, "message": message})
            del self.running[sentinel]

    def forget(self, job):
        path = result_path(self.work, job.entry.name, job.part, job.configuration)
        if os.path.exists(path):
            os.remove(path)

    def clean(self, entry):
        """Removes programs; data and results stay."""
        folder = model_folder(self.work, entry.name)
        for name in os.listdir(folder):
            if name in steps.CONFIGURATIONS:
                shutil.rmtree(os.path.join(folder, name))
            elif name.endswith(".octet"):
                os.remove(os.path.join(folder, name))
