"""Decoding against memory bandwidth, prompts against the peak of arithmetic, batches against one."""

import statistics

from measuring import Gates, limits, median, paired_ratios, speed, spread

DECODE = {"1.1b": ":128:48", "135m": ":128:192"}


def main():
    peak, machine = limits()
    print(f"{machine['processor']}, {machine['cpus']} processors, {machine['instruction_set']}; "
          f"fp32 {peak['fp32_gflops']:.0f}, bf16 {peak['bf16_gflops']:.0f} GFLOP/s", flush=True)
    gates = Gates("cpu-vs-limits")
    for model, decode, prefill, prefill_bf16 in (
            ("1.1b", (0.85, 0.95), (0.80, 0.92), (0.78, 0.92)),
            ("135m", (0.75, 0.90), (0.70, 0.82), (0.62, 0.78))):
        one, eight, sixteen, many = (f"decode:{n}{DECODE[model]}" for n in (1, 8, 16, 32))
        cases = [one, eight, sixteen, many, "prefill:512", "attention:1:4096", "attention:16:256"]
        f16 = speed(model, cases, dtype="f16")
        bf16 = speed(model, [one, "prefill:512"], dtype="bf16", compute="bf16") if peak["bf16_gflops"] else {}
        print(f"{model}: {median(f16[one]):.1f} tokens/s for one sequence, "
              f"{median(f16['prefill:512']):.0f} of a prompt; memory "
              f"{median(f16[one], 'bandwidth_before'):.1f} GB/s, shares of it +-"
              f"{100 * spread(trial['of_bandwidth'] for trial in f16[one]):.0f} %", flush=True)
        gates.least("decode, one sequence, of the bandwidth", median(f16[one], "of_bandwidth"), *decode)
        gates.least("prompt of 512, f16, of the fp32 peak",
                    median(f16["prefill:512"], "gflops") / peak["fp32_gflops"], *prefill)
        if bf16:
            gates.least("prompt of 512, bf16, of its peak",
                        median(bf16["prefill:512"], "gflops") / peak["bf16_gflops"], *prefill_bf16)
            gates.least("decode, one sequence, bf16, of the bandwidth", median(bf16[one], "of_bandwidth"), *decode)
        gates.least("attention at a context of 4,096, of the bandwidth",
                    median(f16["attention:1:4096"], "of_bandwidth"), 0.70, 0.85)
        gates.least("8 sequences over one", statistics.median(paired_ratios(f16[eight], f16[one])), 4.0, 5.5)
        gates.least("16 sequences over 8", statistics.median(paired_ratios(f16[sixteen], f16[eight])), 1.05, 1.25)
        gates.least("32 sequences over 16", statistics.median(paired_ratios(f16[many], f16[sixteen])), 1.0, 1.05)
        gates.most("attention's share of a step, 16 x 256",
                   median(f16[sixteen]) / median(f16["attention:16:256"]), 0.20, 0.12)
    gates.report()


main()
