"""How good synthetic images are: methods against budgets, each cell repeated, all kept."""
