"""Who was protected, as the verifier sees it."""

import copy

import numpy as np

from datalens.data import Records
from datalens.privacy.recost import check_protection
from datalens.synthesizers.class_gaussian import ClassGaussian


def test_a_seeded_run_cannot_pass_for_a_private_one() -> None:
    """Neither by one word nor by the other: its reservation says seeded too."""
    images = np.random.default_rng(0).integers(0, 256, (40, 1, 8, 8), dtype=np.uint8)
    records = Records.from_arrays(images, np.arange(40) % 2, n_classes=2)
    run = ClassGaussian(epsilon=1.0).fit(records, seed=1)
    rows = [row for row in run.extract if "body" in row]
    assert check_protection(run.certificate, rows) == []
    forged = copy.deepcopy(run.certificate)
    forged["private"] = True
    assert any("says otherwise" in said for said in check_protection(forged, rows))
    forged["noise"]["kind"] = "exact"
    assert any("not the one reserved" in said for said in check_protection(forged, rows))
