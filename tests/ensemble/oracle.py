"""The slow truth: one teacher at a time, plain functional modules, label planes built in full."""

import torch
import torch.nn.functional as F
from torch import Tensor

from datalens.ensemble import Discriminator, stream


def same(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """TensorFlow's SAME convolution of stride 2, weights (out, 5, 5, in)."""
    pads: list[int] = []
    for n in (x.shape[3], x.shape[2]):
        total = max((-(-n // 2) - 1) * 2 + 5 - n, 0)
        pads += [total // 2, total - total // 2]
    return F.conv2d(F.pad(x, pads), weight.permute(0, 3, 1, 2), bias, stride=2)


def with_planes(x: Tensor, onehot: Tensor) -> Tensor:
    return torch.cat([x, onehot[:, :, None, None].expand(-1, -1, *x.shape[2:])], dim=1)


def normalised(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    axes = [0, *range(2, x.ndim)]
    centred = x - x.mean(axes, keepdim=True)
    wide = (1, -1) + (1,) * (x.ndim - 2)
    spread = (centred.square().mean(axes, keepdim=True) + 1e-5).sqrt()
    return centred / spread * scale.view(wide) + shift.view(wide)


def flat(x: Tensor) -> Tensor:
    """Rows of the image first, then channels."""
    return x.transpose(1, 2).flatten(1)


def kernel(p: dict[str, Tensor], layer: str) -> Tensor:
    """The weights of the image's channels and of the label planes behind them."""
    return torch.cat([p[f"{layer}.weight"], p[f"{layer}.labels"].permute(2, 0, 1, 3)], dim=3)


def reference(p: dict[str, Tensor], images: Tensor, onehot: Tensor) -> Tensor:
    x = same(with_planes(images, onehot), kernel(p, "conv1"), p["conv1.bias"])
    x = F.leaky_relu(x, 0.2)
    x = same(with_planes(x, onehot), kernel(p, "conv2"), p["conv2.bias"])
    x = F.leaky_relu(normalised(x, p["norm2.scale"], p["norm2.shift"]), 0.2)
    x = torch.cat([flat(x), onehot], dim=1) @ p["hidden.weight"].T + p["hidden.bias"]
    x = F.leaky_relu(normalised(x, p["norm3.scale"], p["norm3.shift"]), 0.2)
    x = torch.cat([x, onehot], dim=1) @ p["out.weight"].T + p["out.bias"]
    return x[:, 0]


def compact(p: dict[str, Tensor], images: Tensor, onehot: Tensor) -> Tensor:
    x = images
    for layer in ("conv1", "conv2", "conv3"):
        if f"{layer}.weight" in p:
            x = F.leaky_relu(same(x, p[f"{layer}.weight"], p[f"{layer}.bias"]), 0.2)
    x = F.leaky_relu(flat(x) @ p["hidden.weight"].T + p["hidden.bias"], 0.2)
    every_class = x @ p["head.weight"] + p["head.bias"][0]
    return (every_class * onehot).sum(1)


PLAIN = {"reference": reference, "compact": compact}


def logits(name: str, p: dict[str, Tensor], images: Tensor, labels: Tensor, classes: int) -> Tensor:
    """One teacher's logits of (m, c, h, w)."""
    return PLAIN[name](p, images, F.one_hot(labels, classes).to(images.dtype))


class OneTeacher:
    """What a teacher should do, in float64 and with torch's own Adam."""

    def __init__(self, model: Discriminator, images: Tensor, labels: Tensor, number: int) -> None:
        self.model, self.images, self.labels, self.number = model, images, labels, number
        fresh = model.initial(stream(b"secret", "initial", number))
        self.params = {k: v.double().requires_grad_() for k, v in fresh.items()}
        self.optimiser = torch.optim.Adam(self.params.values(), lr=2e-4, betas=(0.5, 0.999))

    def judge(self, images: Tensor, labels: Tensor) -> Tensor:
        return logits(self.model.name, self.params, images.double(), labels, self.model.n_classes)

    def train(
        self, x: Tensor, y: Tensor, *, step: int, update: int, real_batch: int, mismatch: bool
    ) -> None:
        picked = torch.arange(real_batch)
        if real_batch < len(self.labels):
            own = stream(b"secret", "records", self.number, step, update)
            picked = torch.randperm(len(self.labels), generator=own)[:real_batch]
        real, labels = self.images[picked].double() / 255, self.labels[picked]
        positive = -F.logsigmoid(self.judge(real, labels)).mean()
        negative = -F.logsigmoid(-self.judge(x, y)).mean()
        if mismatch:
            own = stream(b"secret", "wrong labels", self.number, step, update)
            offset = torch.randint(1, self.model.n_classes, (real_batch,), generator=own)
            wrong = (labels + offset) % self.model.n_classes
            negative = (negative - F.logsigmoid(-self.judge(real, wrong)).mean()) / 2
        self.optimiser.zero_grad()
        (positive + negative).backward()
        self.optimiser.step()

    def gradient(self, x: Tensor, y: Tensor) -> Tensor:
        x = x.clone().requires_grad_()
        return torch.autograd.grad(F.logsigmoid(self.judge(x, y)).sum(), x)[0].flatten(1)
