"""Draws docs/performance.md's tables and docs/performance/throughput.svg from the raw figures in docs/performance/*.jsonl.

usage: python3 benches/table.py   (from the project's root; needs nothing but Python)
"""

import collections
import glob
import json
import re
import statistics

ROWS = [json.loads(line) for path in sorted(glob.glob("docs/performance/*.jsonl")) for line in open(path) if line.startswith("{")]
WHO = ["plimsoll", "fastokens", "toktok", "bpe-openai", "tiktoken-rs"]


def cell(kind, vocabulary, work, who):
    found = [r for r in ROWS if (r["kind"], r.get("vocabulary"), r.get("work"), r["who"]) == (kind, vocabulary, work, who)]
    if not found:
        return None
    # Of fresh processes the one in the middle; of rounds in one process the best.
    return statistics.median(r["mb_s"] for r in found) if "mb_s" in found[0] else max(r["best_mb_s"] for r in found)


def table(kind, vocabulary):
    works = list(dict.fromkeys(r["work"] for r in ROWS if r["kind"] == kind and r.get("vocabulary") == vocabulary))
    who = [w for w in WHO if any(r["who"] == w and r["kind"] == kind and r.get("vocabulary") == vocabulary for r in ROWS)]
    if not works:
        return "not measured\n"
    lines = ["| MB/s | " + " | ".join(who) + " | against the best other |", "| --- |" + " ---: |" * (len(who) + 1)]
    for work in works:
        values = {w: cell(kind, vocabulary, work, w) for w in who}
        others = [v for w, v in values.items() if w != "plimsoll" and v]
        ratio = values["plimsoll"] / max(others) if others else 0
        verdict = f"{ratio:.2f} ×" + ("" if ratio >= 1 else " (lost)")
        lines.append(f"| {work} | " + " | ".join("" if v is None else f"{v:.0f}" if v >= 20 else f"{v:.1f}" for v in values.values()) + f" | {verdict} |")
    return "\n".join(lines) + "\n"


def open_vocabularies():
    rows = [r for r in ROWS if r["kind"] == "open"]
    works = list(dict.fromkeys(r["work"] for r in rows))
    names = list(dict.fromkeys(r["vocabulary"] for r in rows))
    lead = {(n, w): cell("open", n, w, "plimsoll") / cell("open", n, w, "fastokens") for n in names for w in works}
    lines = ["| MB/s (times fastokens; of the first row's lead) | " + " | ".join(works) + " |", "| --- |" + " --- |" * len(works)]
    for name in names:
        cells = [f"{cell('open', name, w, 'plimsoll'):.0f} ({lead[name, w]:.2f}; {lead[name, w] / lead[names[0], w]:.2f})" for w in works]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def start():
    rows = [r for r in ROWS if r["kind"] == "start"]
    lines = ["| first count in a new process | ms from `main` | peak memory, MiB |", "| --- | ---: | ---: |"]
    for who in WHO:
        mine = [r for r in rows if r["who"] == who]
        if mine:
            lines.append(f"| {who} | {min(r['ms'] for r in mine):.1f} | {min(r['peak_kib'] for r in mine) / 1024:.1f} |")
    return "\n".join(lines) + "\n"


def plot():
    works = ["english", "code", "json", "chinese", "multi"]
    colours = dict(zip(WHO, ["#0b3d91", "#e07a1f", "#4a9c5d", "#9b59b6", "#7f8c8d"]))
    values = {(w, who): cell("warm", "o200k_base", w, who) or 0 for w in works for who in WHO}
    top = max(values.values()) or 1
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 320" font-family="sans-serif" font-size="12">']
    parts.append('<text x="10" y="18">o200k_base, 2 kB messages, warm, one thread: MB/s (higher is better)</text>')
    for i, work in enumerate(works):
        for j, who in enumerate(WHO):
            height = 220 * values[work, who] / top
            x = 20 + i * 140 + j * 24
            parts.append(f'<rect x="{x}" y="{270 - height:.1f}" width="20" height="{height:.1f}" fill="{colours[who]}"/>')
            parts.append(f'<text x="{x + 10}" y="{266 - height:.1f}" font-size="9" text-anchor="middle">{values[work, who]:.0f}</text>')
        parts.append(f'<text x="{80 + i * 140}" y="286" text-anchor="middle">{work}</text>')
    for j, who in enumerate(WHO):
        parts.append(f'<rect x="{20 + j * 130}" y="298" width="10" height="10" fill="{colours[who]}"/><text x="{35 + j * 130}" y="307">{who}</text>')
    return "\n".join(parts + ["</svg>\n"])


def main():
    drawn = collections.OrderedDict(
        (f"{kind} {vocabulary}", table(kind, vocabulary)) for kind in ("pair", "pair-bpe", "warm", "hostile", "once", "cold") for vocabulary in ("o200k_base", "cl100k_base")
    )
    drawn["start"] = start()
    drawn["open"] = open_vocabularies()
    text = open("docs/performance.md", encoding="utf-8").read()
    for name, body in drawn.items():
        mark = re.escape(name)
        text = re.sub(rf"(<!-- table: {mark} -->\n).*?(<!-- end -->)", lambda m: m.group(1) + body + m.group(2), text, flags=re.S)
    open("docs/performance.md", "w", encoding="utf-8").write(text)
    open("docs/performance/throughput.svg", "w", encoding="utf-8").write(plot())


main()
