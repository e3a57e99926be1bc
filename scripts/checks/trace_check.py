"""Reads a recording of `penstock trace` and says what is wrong with it."""

import json

FIRST_STAGE = 100  # thread ids of stages begin here; those below show steps from launch to commit
ROUNDING = 0.002  # microseconds


class Trace:
    """A parsed recording. Times in microseconds, totals in seconds."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
        self.events = document["traceEvents"]
        self.totals = document["otherData"]
        self.wall = self.totals["wall_seconds"] * 1e6

    def slices(self, stages):
        """Those of stages, or those of steps in flight, by (process, thread), in order of time."""
        threads = {}
        for event in self.events:
            if event["ph"] == "X" and (event["tid"] >= FIRST_STAGE) == stages:
                threads.setdefault((event["pid"], event["tid"]), []).append(event)
        for slices in threads.values():
            slices.sort(key=lambda slice_: slice_["ts"])
        return threads

    def stage_totals(self):
        """(process, thread): what otherData tells of the stage."""
        return {(replica["replica"] + 1, FIRST_STAGE + stage["stage"]): stage
                for replica in self.totals["replicas"] for stage in replica["stages"]}


def end(slice_):
    return slice_["ts"] + slice_["dur"]


def step_name(slice_):
    return slice_["pid"], slice_["args"]["epoch"], slice_["args"]["step"]


def steps_of(trace):
    """{step: {thread of a stage: its slice}}"""
    steps = {}
    for slices in trace.slices(True).values():
        for slice_ in slices:
            steps.setdefault(step_name(slice_), {})[slice_["tid"]] = slice_
    return steps


def busy_seconds(slices, wall):
    """Of the parts of the slices that are inside of the window."""
    busy = 0
    for slice_ in slices:
        began = slice_["args"].get("began_us", slice_["ts"])
        inside = min(end(slice_), wall) - slice_["ts"]
        if inside > 0:
            busy += slice_["args"]["busy_us"] * inside / (end(slice_) - began)
    return busy / 1e6


def overlaps(trace):
    problems = []
    for stages in (True, False):
        for thread, slices in trace.slices(stages).items():
            for before, after in zip(slices, slices[1:]):
                if after["ts"] < end(before) - ROUNDING:
                    problems.append(f"thread {thread}: {before['name']} and {after['name']} overlap "
                                    f"at {after['ts']} us")
    return problems


def incomplete_steps(trace):
    """Steps within the window that lack a stage, a sequence or the order of stages."""
    problems, steps = [], steps_of(trace)
    stages = {replica["replica"] + 1: len(replica["stages"]) for replica in trace.totals["replicas"]}
    for (process, _), slices in trace.slices(False).items():
        for step in slices:
            if "began_us" in step["args"]:
                continue  # launched before the recording
            name = step_name(step)
            parts = [part for _, part in sorted(steps.get(name, {}).items())]
            if len(parts) != stages[process]:
                problems.append(f"step {name}: {len(parts)} of {stages[process]} stages")
            # Not before.end: a thread may lose its core between handing on and looking at the clock.
            if any(after["ts"] < before["ts"] for before, after in zip(parts, parts[1:])):
                problems.append(f"step {name}: a stage begins before the one before")
            if any(not part["args"]["sequences"] for part in parts):
                problems.append(f"step {name}: no sequences")
    return problems


def idle_seconds(trace, process):
    """Of the window, without any step between its launch and the end of its last stage."""
    steps = steps_of(trace)
    covered, until = 0, 0
    launches = [step for (owner, _), slices in trace.slices(False).items() if owner == process for step in slices]
    for launch in sorted(launches, key=lambda step: step["ts"]):
        parts = steps.get(step_name(launch), {}).values()
        ended = min(max(map(end, parts), default=launch["ts"]), trace.wall)
        covered += max(0, ended - max(launch["ts"], until))
        until = max(until, ended)
    return (trace.wall - covered) / 1e6


def sum_error(trace):
    """The largest |busy + bubble + idle - wall| of a stage, as a part of the wall. Busy and idle are
    added up here from the slices, bubble is as the recording tells it."""
    wall, slices = trace.totals["wall_seconds"], trace.slices(True)
    return max(abs(busy_seconds(slices.get(thread, []), trace.wall) + stage["bubble_seconds"]
                   + idle_seconds(trace, thread[0]) - wall) / wall
               for thread, stage in trace.stage_totals().items())


def counter_error(trace):
    """The largest difference between the busy seconds of the slices that ended in the window and those
    that were counted in it, as a part of the wall. (A stage counts a step when it has ended.)"""
    slices, error = trace.slices(True), 0
    for thread, stage in trace.stage_totals().items():
        busy = sum(slice_["args"]["busy_us"] for slice_ in slices.get(thread, []) if end(slice_) <= trace.wall)
        error = max(error, abs(busy / 1e6 - stage["counted"]["busy_seconds"]))
    return error / trace.totals["wall_seconds"]


def share_error(trace, before, after):
    """The largest difference between a share (busy, bubble, idle) of the window and that of the time
    between two scrapes around it, {(kind, replica, stage): seconds}. Steps that straddle an end of either
    count with different parts."""
    wall, error = trace.totals["wall_seconds"], 0
    for (process, thread), stage in trace.stage_totals().items():
        grown = {kind: after[kind, process - 1, thread - FIRST_STAGE]
                 - before[kind, process - 1, thread - FIRST_STAGE]
                 for kind in ("busy", "bubble", "idle")}
        for kind, seconds in grown.items():
            error = max(error, abs(stage[f"{kind}_seconds"] / wall - seconds / sum(grown.values())))
    return error
