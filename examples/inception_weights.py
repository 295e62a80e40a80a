"""Inception-v3 from torch hub, as a file that `datalens evaluate --features` reads.

    python examples/inception_weights.py inception.safetensors
    datalens evaluate RUN --on DATASET --features inception.safetensors

The weights are TensorFlow's of 2015, which published FIDs use, as pytorch-fid has them; what torch
hub has fetched before is taken from its folder. The file is a pickle, which `datalens` itself never
opens: here it is opened if it is the published one, by a reader that makes tensors and calls
nothing else.
"""

import argparse
import hashlib
from pathlib import Path

import torch
from safetensors.torch import save_file

NAME = "pt_inception-2015-12-05-6726825d.pth"
"""It ends with how the SHA-256 of the file begins."""
URL = f"https://github.com/mseitzer/pytorch-fid/releases/download/fid_weights/{NAME}"


def from_hub() -> dict[str, torch.Tensor]:
    """What lies in torch hub's folder, fetched if need be, and only if it is what was published."""
    file = Path(torch.hub.get_dir()) / "checkpoints" / NAME
    digest = file.stem.rpartition("-")[2]
    try:
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            torch.hub.download_url_to_file(URL, str(file), hash_prefix=digest)
        published = hashlib.sha256(file.read_bytes()).hexdigest().startswith(digest)
    except (OSError, RuntimeError) as error:
        raise SystemExit(f"{URL} cannot be had ({error}); put it at {file} yourself.") from None
    if not published:
        raise SystemExit(f"{file} is not the published file: its SHA-256 differs. Remove it.")
    return torch.load(file, weights_only=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("out", type=Path, help="FILE.safetensors")
    out = options.parse_args().out
    save_file({name: weight.contiguous() for name, weight in from_hub().items()}, out)
    print(f"{out}: datalens evaluate RUN --on DATASET --features {out}")


if __name__ == "__main__":
    main()
