"""Of the checks that measure: pairs of trials, gates, the report."""

import contextlib
import io
import os
import sys
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path[:0] = [os.path.join(ROOT, "scripts", "checks"), os.path.join(ROOT, "bench")]

import measuring  # noqa: E402
import suite_report  # noqa: E402


def trial(rate, bandwidth):
    return {"tokens_per_s": rate, "bandwidth_before": bandwidth, "bandwidth_after": bandwidth}


class Measuring(unittest.TestCase):
    def test_pairs_are_of_trials_that_saw_the_same_memory(self):
        ratios = measuring.paired_ratios([trial(8, 50), trial(9, 80)], [trial(2, 51), trial(3, 79)])
        self.assertEqual(sorted(ratios), [3, 4])

    def test_without_such_pairs_all_count(self):
        self.assertEqual(measuring.paired_ratios([trial(8, 50)], [trial(2, 80)]), [4])

    def test_gates_end_short_when_one_is(self):
        for figure, code, verdict in ((1.3, 0, "ok"), (1.1, 1, "short")):
            gates, output = measuring.Gates("name"), io.StringIO()
            with contextlib.redirect_stdout(output), self.assertRaises(SystemExit) as end:
                gates.least("figure", figure, 1.2, 1.5)
                gates.most("other", 0.1, 0.2, 0.05)
                gates.report()
            self.assertEqual(end.exception.code, code)
            self.assertRegex(output.getvalue().splitlines()[-1], rf"^name: . of 2 .*\(goal 0\): {verdict}$")

    def test_a_check_without_figures_is_short(self):
        with contextlib.redirect_stdout(io.StringIO()), self.assertRaises(SystemExit) as end:
            measuring.Gates("name").report()
        self.assertEqual(end.exception.code, 1)

    def test_spread_is_of_the_median(self):
        self.assertAlmostEqual(measuring.spread([9, 10, 12]), 0.15)


class SuiteReport(unittest.TestCase):
    def test_has_a_row_for_each_figure(self):
        report = {
            "date": "day", "revision": "abc", "system": "Linux",
            "machine": {"processor": "P", "cpus": 2, "instruction_set": "avx2", "memory": "1 kB", "compiler": "c"},
            "limits": {"read_gbytes_per_s": 50, "fp32_gflops": 500, "bf16_gflops": 0, "int8_gops": 0, "handover_us": 1},
            "engine": [
                {"model": "m", "dtype": "f16", "case": "decode:1:128", "tokens_per_s": 5, "least": 4, "most": 6,
                 "of_bandwidth": 0.9, "gflops": 0, "bandwidth": 50},
                {"model": "m", "dtype": "bf16", "case": "prefill:512", "tokens_per_s": 7, "least": 7, "most": 7,
                 "of_bandwidth": 0, "gflops": 80, "bandwidth": 50},
                {"model": "m", "dtype": "f16", "case": "load", "seconds": 1.5, "resident": 2e6, "planned": 1e6}],
            "scaling": [{"model": "m", "ranks": "tensor 2", "prefill": 8, "prefill_ratio": 1.9, "decode": 9,
                         "decode_ratio": 1.1}],
            "server": [{"clients": 3, "tokens_per_s": 11, "ttft_ms": {"p50": 1, "p99": 2}, "itl_ms": {"p50": 3, "p99": 4}}],
            "peers": {"cpu-vs-llama": "cpu-vs-llama: ok"}}
        text = suite_report.format_report(report)
        for row in ("| m | f16 | decode:1:128 | 5.0 | 4.0 to 6.0 | 90 % of 50 GB/s |",
                    "| m | bf16 | prefill:512 | 7.0 | 7.0 to 7.0 | 80 GFLOP/s |",
                    "| m | f16 | load | 1.50 s |  | resident 2 MB, planned 1 |",
                    "| m | tensor 2 | 8 | 1.90 | 9 | 1.10 |", "| 3 | 11 | 1.0 ms | 2.0 ms | 3.0 ms | 4.0 ms |",
                    "cpu-vs-llama: ok"):
            self.assertIn(row, text)


if __name__ == "__main__":
    unittest.main()
