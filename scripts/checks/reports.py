"""The `reports` check: reports.py PENSTOCK MODEL FOLDER. Puts a server with two stages under load, records
a timeline meanwhile, and looks whether it is sound and agrees with the metrics; then renders the load
generator's HTML report in a browser. FOLDER gets trace.json, report.html and report.png."""

import json
import os
import re
import subprocess
import sys
import time
import urllib.request

import trace_check
from serving import serving

SECONDS = 8  # recorded
GOAL_SUM = 0.01  # of the wall
GOAL_BUSY = 0.01  # of the wall: slices against the counters of the very same window
GOAL_SHARES = 0.04  # slices against Prometheus: scrapes lie outside, and steps straddle the ends
PLOTS = 6  # latency, throughput, running, starts, batch size and at least one of the stages

# Leaves in the page what the browser made of each plot: marks with an extent and a colour.
PROBE = """
<script>
window.addEventListener("load", () => {
  const painted = (mark) => {
    const box = mark.getBoundingClientRect(), style = getComputedStyle(mark);
    return box.width + box.height > 0 && (style.stroke !== "none" || style.fill !== "none");
  };
  const plots = [...document.querySelectorAll("svg.plot")].map((plot) => ({
    title: plot.querySelector("title")?.textContent ?? "",
    width: plot.getBoundingClientRect().width,
    height: plot.getBoundingClientRect().height,
    marks: [...plot.querySelectorAll(".line, .area, .dot")].filter(painted).length,
  }));
  const out = document.createElement("pre");
  out.id = "probe";
  out.textContent = JSON.stringify(plots);
  document.body.append(out);
});
</script></body>"""


def stage_seconds(server):
    """{(kind, replica, stage): seconds} since the server's start."""
    with urllib.request.urlopen(f"http://{server.metrics}/metrics", timeout=10) as reply:
        text = reply.read().decode()
    found = re.findall(r'^penstock_stage_(busy|bubble|idle)_seconds_total\{[^}]*replica="(\d+)",stage="(\d+)"\} '
                       r'(\S+)', text, re.M)
    return {(kind, int(replica), int(stage)): float(value) for kind, replica, stage, value in found}


def record(server, path):
    """The recording, and the scrapes before and after it."""
    before = stage_seconds(server)
    subprocess.run([server.program, "trace", "--address", server.address, "--seconds", str(SECONDS),
                    "--out", path], check=True)
    return trace_check.Trace(path), before, stage_seconds(server)


def judge_trace(trace, before, after):
    """Prints figures; (problems, errors of sums, busy seconds and shares)."""
    problems = trace_check.overlaps(trace) + trace_check.incomplete_steps(trace)
    if not trace.totals["complete"] or trace.totals["lost_steps"]:
        problems.append(f"lost steps: {trace.totals['lost_steps']}, complete: {trace.totals['complete']}")
    for (process, thread), stage in sorted(trace.stage_totals().items()):
        print(f"replica {process - 1} stage {thread - trace_check.FIRST_STAGE}: {stage['steps']} steps, "
              + ", ".join(f"{kind} {stage[kind + '_seconds']:.2f} s (counters "
                          f"{stage['counted'][kind + '_seconds']:.2f})" for kind in ("busy", "bubble", "idle")))
    return problems, (trace_check.sum_error(trace), trace_check.counter_error(trace),
                      trace_check.share_error(trace, before, after))


def browse(chromium, *arguments):
    return subprocess.run([chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                           *arguments], check=True, capture_output=True, text=True, timeout=120).stdout


def rendered_plots(chromium, report, folder):
    """What a browser made of each plot."""
    probed = os.path.join(folder, "probed.html")
    with open(report, encoding="utf-8") as file:
        html = file.read()
    with open(probed, "w", encoding="utf-8") as file:
        file.write(html.replace("</body>", PROBE))
    browse(chromium, f"--screenshot={folder}/report.png", "--window-size=1200,2400", f"file://{report}")
    dom = browse(chromium, "--virtual-time-budget=5000", "--dump-dom", f"file://{probed}")
    os.unlink(probed)
    found = re.search(r'<pre id="probe">(.*?)</pre>', dom, re.S)
    if not found:
        raise SystemExit("the browser did not run the probe")
    return json.loads(found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))


def judge_plots(plots):
    for plot in plots:
        print(f"plot {plot['title']}: {plot['width']:.0f} x {plot['height']:.0f}, {plot['marks']} marks")
    empty = [f"plot {plot['title']} is empty" for plot in plots
             if plot["marks"] == 0 or plot["width"] < 100 or plot["height"] < 100]
    return empty + ([f"only {len(plots)} plots"] if len(plots) < PLOTS else [])


def main():
    penstock, model, folder = sys.argv[1:4]
    chromium = sys.argv[4]
    report = os.path.join(os.path.abspath(folder), "report.html")
    with serving(penstock, model, "--pipeline", 2) as server:
        wait = server.start_bench(
            "--concurrency", 12, "--duration", SECONDS + 8, "--prompt-tokens", "uniform:16-96",
            "--output-tokens", "uniform:8-64", "--metrics", f"http://{server.metrics}/metrics",
            "--html", report)
        time.sleep(4)
        trace, before, after = record(server, os.path.join(folder, "trace.json"))
        wait()
    problems, errors = judge_trace(trace, before, after)
    plots = rendered_plots(chromium, report, folder)
    problems += judge_plots(plots)
    for problem in problems[:20]:
        print("problem:", problem)
    goals = (GOAL_SUM, GOAL_BUSY, GOAL_SHARES)
    ok = not problems and all(error <= goal for error, goal in zip(errors, goals))
    steps = sum(replica["steps"] for replica in trace.totals["replicas"])
    figures = [", ".join(f"{100 * value:.2f} %" for value in values) for values in (errors, goals)]
    print("errors, of the wall: busy + bubble + idle; busy against counters; shares against Prometheus")
    print(f"reports: {len(problems)} problems in {steps} steps and {len(plots)} plots, errors {figures[0]} "
          f"(goal 0 problems, {figures[1]}): {'ok' if ok else 'short'}")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
