"""Gradients to ballots to tally to release; each mechanism states its sensitivity."""
