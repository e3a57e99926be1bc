"""The report of bench/suite.py as Markdown."""


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def engine_rows(report):
    peaks = {"f16": report["limits"]["fp32_gflops"], "bf16": report["limits"]["bf16_gflops"]}
    for row in report["engine"]:
        if row["case"] == "load":
            yield [row["model"], row["dtype"], "load", f"{row['seconds']:.2f} s", "",
                   f"resident {row['resident'] / 1e6:.0f} MB, planned {row['planned'] / 1e6:.0f}"]
            continue
        peak = peaks[row["dtype"]]
        share = f"{100 * row['of_bandwidth']:.0f} % of {row['bandwidth']:.0f} GB/s"
        if row["case"].startswith("prefill"):
            share = f"{100 * row['gflops'] / peak:.0f} % of {peak:.0f} GFLOP/s" if peak else f"{row['gflops']:.0f} GFLOP/s"
        yield [row["model"], row["dtype"], row["case"], f"{row['tokens_per_s']:.1f}",
               f"{row['least']:.1f} to {row['most']:.1f}", share]


def format_report(report):
    machine, peak = report["machine"], report["limits"]
    parts = [
        "# Benchmark report\n",
        f"{report['date']}, revision {report['revision']}, {report['system']}\n",
        f"{machine['processor']}, {machine['cpus']} processors ({machine['instruction_set']}), {machine['memory']}, "
        f"compiler {machine['compiler']}\n",
        f"Limits: read {peak['read_gbytes_per_s']:.1f} GB/s, fp32 {peak['fp32_gflops']:.0f} GFLOP/s, bf16 "
        f"{peak['bf16_gflops']:.0f}, int8 {peak['int8_gops']:.0f} GOP/s, hand-over {peak['handover_us']:.2f} us\n",
        "## Engine\n",
        "Tokens per second, medians; memory bandwidth is that measured beside the trial.\n",
        table(["model", "weights", "case", "tokens/s", "trials", "of the limit"], engine_rows(report)),
        "## Scaling\n",
        table(["model", "ranks", "prompt tokens/s", "ratio", "decode of 16, tokens/s", "ratio"],
              [[row["model"], row["ranks"], f"{row['prefill']:.0f}", f"{row['prefill_ratio']:.2f}",
                f"{row['decode']:.0f}", f"{row['decode_ratio']:.2f}"] for row in report["scaling"]]),
        "## Server over gRPC, the client on the same processors\n",
        table(["clients", "tokens/s", "TTFT p50", "p99", "gap p50", "p99"],
              [[row["clients"], f"{row['tokens_per_s']:.0f}"] +
               [f"{row[what][p]:.1f} ms" for what in ("ttft_ms", "itl_ms") for p in ("p50", "p99")]
               for row in report["server"]]),
    ]
    for check, output in report["peers"].items():
        parts += [f"## {check}\n", "```\n" + output + "\n```\n"]
    return "\n".join(parts)
