"""`python -m datalens`."""

from datalens.workflows.cli import main

if __name__ == "__main__":
    main()
