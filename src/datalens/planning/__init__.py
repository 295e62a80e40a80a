"""What a run will cost and give, before any record is seen."""
