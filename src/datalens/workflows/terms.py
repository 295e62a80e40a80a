"""One epsilon is *the* epsilon of a run or a ledger; the others stand in a table below it."""

from rich.table import Table

from datalens.privacy.rounding import rounded_up

REPLACED = "if a record is replaced by another; the epsilon above has it left out"
ACCOUNTANTS = {
    "pld": "by privacy loss distributions, to compare: no bound where noise is discrete",
    "certified": "by Renyi divergences, a bound as well",
    "paper": "by the paper's Theorem 3, to compare with its figures",
    "gaussian": "if noise were continuous, to compare with other tools: no bound",
}
"""What each accountant that did not size a run is for."""


def other_terms(terms: dict[str, float]) -> Table:
    """What the same charges are in other terms, by what each figure is for."""
    others = Table(title="The same charges in other terms", title_justify="left")
    others.add_column("epsilon", justify="right", no_wrap=True)
    others.add_column("what it is")
    for what, epsilon in terms.items():
        others.add_row(rounded_up(epsilon), what)
    return others
