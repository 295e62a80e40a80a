"""A local page that follows a run while it trains. It can look, and nothing else."""
