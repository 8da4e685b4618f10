"""The measurements of translate_speed.py as figures and as tables."""

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from peers.contestants import Contestant

MIN_AGREEMENT = 95.0
"""BLEU to the first contestant's output; of one that is below, differing lines are reported."""


def summarize(contestants: Sequence[Contestant], reference: Sequence[str]) -> dict[str, Any]:
    """Returns a row for each contestant, and the ratios.

    Args:
        contestants: Their rounds measured.
        reference: Reference lines.
    """
    found = {
        contestant.label: Path(contestant.task["output"]).read_text("utf-8").split("\n")[:-1]
        for contestant in contestants
        if Path(contestant.task["output"]).is_file()
    }
    ours = next((found[c.label] for c in contestants if c.label in found), None)
    rows = []
    for contestant in contestants:
        lines = found.get(contestant.label)
        agreement = None if lines is None or ours is None else bleu(lines, ours)
        rows.append(
            {
                "contestant": contestant.label,
                "precision": contestant.precision,
                **{what: _figures(contestant, what) for what in ("steady", "whole", "first")},
                **_facts(contestant),
                "bleu": None if lines is None else bleu(lines, reference),
                "chrf": None if lines is None else chrf(lines, reference),
                "bleu_to_first": agreement,
                "lines_that_differ": None
                if lines is None or ours is None
                else sum(one != other for one, other in zip(lines, ours, strict=True)),
                "settings": contestant.task.get("settings"),
                "tried": contestant.task.get("tried"),
            }
        )
    return {"rows": rows, "ratios": list_ratios(contestants)}


def bleu(lines: Sequence[str], reference: Sequence[str]) -> float:
    """Returns sacreBLEU's score in percentage points."""
    # It takes a while to load, and the rounds are timed before.
    import sacrebleu  # noqa: PLC0415

    return float(sacrebleu.corpus_bleu(list(lines), [list(reference)]).score)


def chrf(lines: Sequence[str], reference: Sequence[str]) -> float:
    """Returns sacreBLEU's chrF2 in percentage points."""
    import sacrebleu  # noqa: PLC0415

    return float(sacrebleu.corpus_chrf(list(lines), [list(reference)]).score)


def _figures(contestant: Contestant, what: str) -> dict[str, Any] | None:
    """Returns medians over rounds of one measure; None where it has none."""
    rounds = [measured for timed in contestant.rounds if (measured := timed.get(what)) is not None]
    if not rounds:
        return None
    speeds = [measured["sentences"] / measured["seconds"] for measured in rounds]
    seconds = statistics.median(measured["seconds"] for measured in rounds)
    num_tokens = None if what == "first" else _tokens(contestant)
    return {
        "seconds": seconds,
        "sentences_per_second": statistics.median(speeds),
        "min": min(speeds),
        "max": max(speeds),
        "target_tokens_per_second": None if num_tokens is None else num_tokens / seconds,
        "rounds": len(rounds),
    }


def _tokens(contestant: Contestant) -> int | None:
    """Returns how many target tokens the whole source gave."""
    steady = [timed["steady"] for timed in contestant.rounds if timed.get("steady")]
    return steady[-1]["target_tokens"] if steady else None


def _facts(contestant: Contestant) -> dict[str, Any]:
    steady = [timed["steady"] for timed in contestant.rounds if timed.get("steady")]
    if not steady:
        return {"tokens_per_sentence": None, "peak_bytes": None, "versions": {}}
    last = steady[-1]
    return {
        "tokens_per_sentence": last["target_tokens"] / last["sentences"],
        "peak_bytes": max(measured["peak_bytes"] for measured in steady),
        "threads": last["threads"],
        "arithmetic": last.get("arithmetic"),
        "versions": last["versions"],
    }


def list_ratios(contestants: Sequence[Contestant]) -> list[dict[str, Any]]:
    """Returns how much faster mtkit is than its peers, by measure."""
    clients = [one for one in contestants if one.system == "ctranslate2"]
    fastest = max(clients, key=_speed, default=None)
    pairs: list[tuple[Contestant, Contestant]] = []
    for ours in (one for one in contestants if one.system == "mtkit"):
        pairs += [(ours, client) for client in clients]
        pairs += [(ours, one) for one in contestants if one.system == "onmt"]
    return [
        {
            "ours": ours.label,
            "theirs": theirs.label,
            "theirs_is_the_fastest_type": theirs is fastest,
            "steady": _ratio(ours, theirs, "steady"),
            "whole": _ratio(ours, theirs, "whole"),
        }
        for ours, theirs in pairs
    ]


def _speed(contestant: Contestant) -> float:
    figures = _figures(contestant, "steady") or _figures(contestant, "whole")
    return 0.0 if figures is None else float(figures["sentences_per_second"])


def _ratio(ours: Contestant, theirs: Contestant, what: str) -> float | None:
    """Returns the median over rounds of our speed over theirs of the same round."""
    ratios = [
        other["seconds"] / one["seconds"]
        for one, other in zip(
            (timed.get(what) for timed in ours.rounds),
            (timed.get(what) for timed in theirs.rounds),
            strict=True,
        )
        if one is not None and other is not None
    ]
    return statistics.median(ratios) if ratios else None


def print_report(report: dict[str, Any], num_rounds: int) -> None:
    """Prints both tables, and each contestant's settings and versions."""
    _print_rows(report["rows"], num_rounds)
    if report["ratios"]:
        _print_ratios(report["ratios"])
    print()
    for row in report["rows"]:
        versions = ", ".join(f"{name} {version}" for name, version in row["versions"].items())
        settings = {"computes in": row.get("arithmetic"), **(row["settings"] or {})}
        listed = ", ".join(
            f"{name} {value}" for name, value in settings.items() if value is not None
        )
        print(f"* {row['contestant']}: {versions}{'; ' if listed else ''}{listed}")
        if row["bleu_to_first"] is not None and row["bleu_to_first"] < MIN_AGREEMENT:
            print(f"  * {row['lines_that_differ']:,} lines are others than the first row's")


def _print_rows(rows: Sequence[dict[str, Any]], num_rounds: int) -> None:
    print(
        f"\n| contestant | steady: sentences/s, median of {num_rounds} | min to max "
        "| target tokens/s | start to exit: sentences/s | seconds | target tokens/s "
        "| first line after | peak memory | tokens a sentence | BLEU | chrF2 "
        "| BLEU to the first row's |\n"
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|"
    )
    for row in rows:
        steady, whole, first = row["steady"] or {}, row["whole"] or {}, row["first"] or {}
        min_to_max = f"{steady['min']:,.1f} to {steady['max']:,.1f}" if steady else ""
        memory = row["peak_bytes"]
        cells = [
            row["contestant"],
            _number(steady.get("sentences_per_second"), 1),
            min_to_max,
            _number(steady.get("target_tokens_per_second"), 0),
            _number(whole.get("sentences_per_second"), 1),
            _number(whole.get("seconds"), 2),
            _number(whole.get("target_tokens_per_second"), 0),
            _number(first.get("seconds"), 2, " s"),
            _number(None if memory is None else memory / 2**20, 0, " MiB"),
            _number(row["tokens_per_sentence"], 2),
            _number(row["bleu"], 2),
            _number(row["chrf"], 2),
            _number(row["bleu_to_first"], 1),
        ]
        print(f"| {' | '.join(cells)} |")


def _print_ratios(ratios: Sequence[dict[str, Any]]) -> None:
    print("\n| speed of | over that of | steady | start to exit |\n|---|---|---|---|")
    for ratio in ratios:
        steady, whole = _number(ratio["steady"], 2), _number(ratio["whole"], 2)
        fastest = ", its fastest" if ratio["theirs_is_the_fastest_type"] else ""
        print(f"| {ratio['ours']} | {ratio['theirs']}{fastest} | {steady} | {whole} |")


def _number(value: float | None, digits: int, unit: str = "") -> str:
    return "" if value is None else f"{value:,.{digits}f}{unit}"
