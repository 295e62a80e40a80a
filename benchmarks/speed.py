"""How fast teachers train and vote, as `datalens bench speed`; `--out` keeps the result.

    python benchmarks/speed.py --grow 500,1000,2000,4000 --out docs/results/speed/NAME

writes NAME.json and NAME.md.
"""

import sys

from datalens.workflows.cli import main

if __name__ == "__main__":
    sys.argv[1:1] = ["bench", "speed"]
    main()
