"""What an audit found, as tables."""

from typing import Any

from datalens.privacy.rounding import down_to_places, up_to_places
from datalens.workflows.bench.tables import Rows

LEGEND = (
    "Runs are in each world. Epsilon is at least what the attack shows, with {confidence:.1%}"
    " confidence in all bounds together; it must stay below the exact curve of what the ledger"
    " charged. The move is the largest squared distance of a tally or sum from its neighbour, as a"
    " share of what was paid for."
)


def audit_tables(result: dict[str, Any]) -> dict[str, Rows]:
    """Title, heads and rows of each table."""
    found: dict[str, Rows] = {
        "Attacks on our own mechanism": (
            ["attack", "runs", "delta", "epsilon >=", "exact", "certified", "move", ""],
            [
                [
                    entry["attack"],
                    f"{entry['trials_in_each_world']:,}",
                    f"{bound['delta']:g}",
                    down_to_places(bound["epsilon_at_least"], 3),
                    up_to_places(bound["exact"], 3),
                    up_to_places(bound["certified"], 3),
                    up_to_places(entry["largest_move"], 3),
                    "holds" if bound["holds"] and entry["largest_move"] <= 1 else "EXCEEDED",
                ]
                for entry in result["attacks"]
                for bound in entry["bounds"]
            ],
        )
    }
    if "membership" in result:
        found["Membership inference on samples (internal)"] = (
            ["attack", "AUC", "95 %", "without\nsamples", "found at 1 %\nfalse alarms", "95 %"],
            [
                [
                    entry["attack"],
                    f"{entry['auc']:.3f}",
                    "{:.3f}-{:.3f}".format(*entry["auc_interval"]),
                    f"{entry['control_auc']:.3f}",
                    f"{entry['hits_at_one_percent']:.2%}",
                    "{:.2%}-{:.2%}".format(*entry["hits_interval"]),
                ]
                for entry in result["membership"]["attacks"]
            ],
        )
    return found
