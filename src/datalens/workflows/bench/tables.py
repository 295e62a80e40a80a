"""Result files as tables, for the terminal and for documentation."""

from typing import Any

from rich.table import Column, Table
from rich.text import Text

Rows = tuple[list[str], list[list[str]]]


def speed_tables(result: dict[str, Any]) -> dict[str, Rows]:
    """Title, heads and rows of each table in a result of `bench speed`."""
    found: dict[str, Rows] = {
        "Milliseconds a teacher; GFLOPS of update and ballot; peak memory a teacher": (
            [
                "network",
                "engine",
                "update",
                "ballot",
                "step",
                "range",
                "GFLOPS",
                "of peak",
                "MiB",
            ],
            [
                [
                    row["discriminator"],
                    row["engine"],
                    f"{row['update_ms']:.3f}",
                    f"{row['ballot_ms']:.3f}",
                    f"{row['step_ms']:.2f}",
                    "{:.2f}-{:.2f}".format(*row["step_ms_range"]),
                    f"{row['update_gflops']:.0f}, {row['ballot_gflops']:.0f}",
                    f"{row['share_of_peak']:.0%}",
                    f"{row['peak_mib_a_teacher']:.2f}",
                ]
                for row in result["rows"]
            ],
        ),
        "What of it": (["", ""], [[name, text] for name, text in _sentences(result)]),
        "The rest of a step, with 4,000 reference teachers": (
            ["image", "share of the step", "teachers", "votes", "noise", "student"],
            [
                ["x".join(map(str, row["shape"])), f"{row['share']:.1%}"]
                + [f"{row['seconds'][part]:.2f} s" for part in PARTS]
                for row in result["rest_of_a_step"]
            ],
        ),
    }
    found["On 64x64 colour images, moments in bfloat16, and 100,000 teachers"] = (
        ["network", "parameters", "ms a step", "core hours a step", "terabytes", "sent by a rank"],
        [
            [
                row["discriminator"],
                f"{row['parameters']:,}",
                f"{row['step_ms']:.1f}",
                f"{row['core_hours_a_step']:.2f}",
                f"{row['terabytes']:.2f}",
                f"{row['megabytes_sent_by_a_rank']:.2f} MB",
            ]
            for row in result["colour"]
        ],
    )
    if result["growth"]:
        found["A step of more and more reference teachers, moments in bfloat16"] = (
            ["teachers", "seconds a step", "ms a teacher", "peak memory", "MiB a teacher"],
            [
                [
                    f"{row['teachers']:,}",
                    f"{row['step_seconds']:.1f}",
                    f"{row['step_seconds'] / row['teachers'] * 1e3:.2f}",
                    f"{row['peak_gib']:.2f} GiB",
                    f"{row['peak_gib'] * 1024 / row['teachers']:.2f}",
                ]
                for row in result["growth"]
            ],
        )
    return found


PARTS = ("teachers", "votes", "noise", "student")


def _sentences(result: dict[str, Any]) -> list[tuple[str, str]]:
    machine, ratios = result["machine"], result["conclusions"]
    ours = next(r for r in result["rows"] if (r["discriminator"], r["engine"]) == TARGET)
    return [
        ("matrix products, this machine's peak", f"{machine['peak_gflops']:.0f} GFLOPS"),
        ("memory, read and written in place", f"{machine['bandwidth_gb_s']:.1f} GB/s"),
        (
            "limit of a step, reference: products at the peak, one pass over weights and moments",
            f"{ours['limit_ms']:.2f} ms a teacher",
        ),
        ("ours against that limit", f"{ratios['reference_times_the_limit']:.2f} times"),
        (
            "limit with one pass for each of the two updates",
            f"{ours['limit_ms_pass_per_update']:.2f} ms a teacher",
        ),
        (
            "ours against that",
            f"{ratios['reference_times_the_limit_with_a_pass_per_update']:.2f} times",
        ),
        (
            "reference, faster than the plain loop (the quicker one)",
            f"{ratios['reference_times_faster_than_loop']:.1f} times",
        ),
        (
            "reference, faster than vmap",
            f"{ratios['reference_times_faster_than_vmap']:.1f} times",
        ),
        (
            "compact, faster than reference",
            f"{ratios['compact_times_faster_than_reference']:.1f} times",
        ),
    ]


TARGET = ("reference", "ours")


def for_terminal(title: str, rows: Rows) -> Table:
    heads, body = rows
    columns = [Column(Text(head)) for head in heads]  # names of classes are no markup
    table = Table(*columns, title=Text(title), title_justify="left", show_header=any(heads))
    for row in body:
        table.add_row(*map(Text, row))
    return table


def for_markdown(title: str, rows: Rows) -> str:
    heads, body = rows
    lines = [f"**{title}**", "", _line(heads), _line(["---"] * len(heads))]
    return "\n".join([*lines, *(_line(row) for row in body)]) + "\n"


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"
