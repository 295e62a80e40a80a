"""Which teachers a rank has."""

from datalens.errors import DataLensError


def own_teachers(rank: int, size: int, *, n_teachers: int, block_size: int) -> range:
    """The rank's teachers: whole blocks, one after the other, as even as may be.

    Whole blocks, because results are the same bit for bit only at a fixed division into blocks.
    """
    blocks = -(-n_teachers // block_size)
    if size > blocks:
        raise DataLensError(
            f"{n_teachers} teachers in blocks of {block_size} can be divided over {blocks}"
            f" rank{'s' if blocks > 1 else ''} at most, not {size}; use fewer ranks, or smaller"
            " blocks (--set block_size=...)."
        )
    edges = [block_size * (blocks * r // size) for r in (rank, rank + 1)]
    return range(edges[0], min(edges[1], n_teachers))
