"""Events to cost: accountants, calibration, ledger, certificate, verification."""
