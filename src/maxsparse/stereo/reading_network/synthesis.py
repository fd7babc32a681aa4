"""Realistic synthetic readings: random normals, materials, shadows, interreflections, noise and bad photographs.

One call renders B independent surface points under one rig of q lights. Directions are in the frame of the package:
x right, y up, z to the camera.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from maxsparse._core.extras import needs

with needs("training"):
    import torch
    from torch import Tensor

__all__ = ["Readings", "sample_lights", "sample_readings"]


@dataclass(frozen=True)
class Readings:
    """Rendered readings with the true normals and inliers.

    Attributes
    ----------
    values : tensor of shape (B, q)
    normals : tensor of shape (B, 3)
    inliers : tensor of shape (B, q), bool
        Readings that the diffuse part alone explains to within a tenth.
    """

    values: Tensor
    normals: Tensor
    inliers: Tensor


def sample_lights(q: int, generator: torch.Generator) -> Tensor:
    """Draw a rig of q lights, (q, 3): over the hemisphere, in a frontal cone, on a grid of a panel, or on rings."""
    kind = int(torch.randint(4, (1,), generator=generator))
    if kind == 0:
        low = _uniform(1, 0.1, 0.4, generator)
        z = low + (1 - low) * torch.rand(q, generator=generator)
        angle = 2 * math.pi * torch.rand(q, generator=generator)
        return _polar(z, angle)
    if kind == 1:
        low = _uniform(1, 0.4, 0.8, generator)
        z = low + (1 - low) * torch.rand(q, generator=generator)
        angle = 2 * math.pi * torch.rand(q, generator=generator)
        return _polar(z, angle)
    if kind == 2:
        columns = max(2, math.ceil(math.sqrt(q * float(_uniform(1, 1.0, 1.8, generator)))))
        rows = max(2, math.ceil(q / columns))
        half = _uniform(2, 0.4, 1.0, generator)
        place = torch.arange(q)
        x = (2 * (place % columns) / (columns - 1) - 1) * half[0]
        y = (2 * (place // columns) / (rows - 1) - 1) * half[1]
        panel = torch.stack([x, y, torch.ones(q)], 1)
        return _unit(panel + 0.03 * torch.randn(q, 3, generator=generator))
    rings = 1 + int(torch.randint(3, (1,), generator=generator))
    heights = torch.sort(_uniform(rings, 0.25, 0.9, generator)).values
    place = torch.arange(q)
    angle = 2 * math.pi * (place // rings) / max(1, math.ceil(q / rings)) + (place % rings) * 0.7
    z = heights[place % rings] + 0.02 * torch.randn(q, generator=generator)
    lights = _polar(z.clamp(0.1, 0.99), angle)
    return torch.cat([lights[:-1], _unit(torch.tensor([[0.05, 0.02, 1.0]]))])  # one ring alone is nearly coplanar


def sample_readings(lights: Tensor, count: int, generator: torch.Generator) -> Readings:
    """Render `count` independent surface points under the rig `lights` (q, 3)."""
    n = _sample_normals(count, generator)
    # Light directions have errors of about half a degree, intensities of one or two per cent.
    jitter = _uniform(1, 0.0, 0.01, generator)
    L = _unit(lights + jitter * torch.randn(lights.shape, generator=generator))
    diffuse, specular = _materials(n, L, generator)
    visible, bounced = _surroundings(n, L, generator)
    direct = diffuse + specular
    mean = direct.mean(1, keepdim=True)
    ambient = mean * 0.05 * _sometimes(count, 0.4, generator) * torch.rand(count, 1, generator=generator)
    values = direct * visible + bounced * (diffuse.amax(1, keepdim=True) + 0.3 * mean) + ambient
    values = _photograph(_mixed(values, generator), generator)
    tolerance = 0.1 * diffuse + 0.01 * diffuse.amax(1, keepdim=True)
    inliers = ((values - diffuse).abs() <= tolerance) & (n @ L.T > 0) & (visible > 0.5)
    return Readings(values, n, inliers)


def _sample_normals(count: int, generator: torch.Generator) -> Tensor:
    """Six in ten normals as in a picture of a convex object (density cos θ), the rest uniform on the hemisphere."""
    z = torch.rand(count, generator=generator)
    z = torch.where(torch.rand(count, generator=generator) < 0.6, z.sqrt(), z).clamp(0.03, 0.9999)
    return _polar(z, 2 * math.pi * torch.rand(count, generator=generator))


def _materials(n: Tensor, L: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return the diffuse and the specular part of the unshadowed readings, each (B, q)."""
    B = len(n)
    view = torch.tensor([0.0, 0.0, 1.0])
    H = _unit(L + view)
    nl = (n @ L.T).clamp_min(0)
    nh, nv = (n @ H.T).clamp(0, 1), n[:, 2:3].clamp_min(0.02)
    lh = (L * H).sum(1)[None].clamp(0, 1)

    def lobe(roughness: Tensor, f0: Tensor) -> Tensor:
        """GGX with Schlick's Fresnel term, times n·l."""
        a2 = roughness**4
        D = a2 / (math.pi * (nh * nh * (a2 - 1) + 1) ** 2 + 1e-7)
        k = roughness**2 / 2
        G = nl / (nl * (1 - k) + k + 1e-6) * (1 / (nv * (1 - k) + k))
        return D * G * (f0 + (1 - f0) * (1 - lh) ** 5) / 4

    kind = torch.rand(B, 1, generator=generator)
    rough = _uniform((B, 1), 0.0, 1.3, generator)
    burley = (1 + (2 * lh * lh * rough - 0.5) * (1 - nl) ** 5) * (1 + (2 * lh * lh * rough - 0.5) * (1 - nv) ** 5)
    # Subsurface scattering softens the terminator; a very rough (retro-reflecting) surface flattens n·l.
    flat = nl ** _uniform((B, 1), 0.6, 1.0, generator)
    # What falls in at grazing angles is reflected by a clear coat, as of plastic and glaze.
    coated = nl * (1 - _uniform((B, 1), 0.4, 1.0, generator) * (1 - nl) ** 5)
    shape = torch.where(kind < 0.65, burley * nl, torch.where(kind < 0.85, coated, flat))
    shape = torch.where(kind < 0.22, nl, shape) / math.pi
    metal = _sometimes(B, 0.15, generator)
    base = _uniform((B, 1), 0.05, 1.0, generator)
    diffuse = base * (1 - 0.95 * metal) * shape
    matte = _sometimes(B, 0.2, generator)
    r1, r2 = _uniform((B, 1), 0.12, 0.9, generator), _uniform((B, 1), 0.1, 0.6, generator)
    f0 = 0.02 + 0.06 * torch.rand(B, 1, generator=generator)
    s1 = torch.rand(B, 1, generator=generator) ** 2 * 2.0
    s2 = torch.rand(B, 1, generator=generator) ** 4
    f_metal = _uniform((B, 1), 0.4, 1.0, generator)
    coat = s1 * lobe(r1, f0) + s2 * lobe(r2, f0 + 0.3 * torch.rand(B, 1, generator=generator) ** 3)
    # The sheen of some paints is as bright as the paint, at every angle.
    width = 0.1 * 6 ** torch.rand(B, 1, generator=generator)
    strength = _sometimes(B, 0.12, generator) * _uniform((B, 1), 0.0, 2.0, generator) * diffuse.amax(1, keepdim=True)
    sheen = strength * torch.exp((1 - 1 / nh.clamp_min(0.05) ** 2) / width**2)
    specular = (1 - matte) * (coat + sheen) + metal * f_metal * lobe(r1, f_metal)
    return diffuse, specular * (n @ L.T > 0)


def _surroundings(n: Tensor, L: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return which lights reach the points, and the light reflected by neighbours, each (B, q).

    A neighbour in direction d fills a cone: it blocks the lights in that cone, and reflects the light that falls on it
    like a diffuse patch with its own normal.
    """
    B = len(n)
    visible = torch.ones(B, len(L))
    bounced = _far_light(B, L, generator)
    enclosed = torch.rand(B, 1, generator=generator)  # most points are open, some are in a fold
    for chance in (0.55, 0.75, 0.85):
        here = (enclosed > chance).float()
        d = _unit(torch.randn(B, 3, generator=generator) * torch.tensor([1.0, 1.0, 0.6]))
        d = torch.where((d * n).sum(1, keepdim=True) < 0, -d, d)
        d = _unit(d - 0.9 * _uniform((B, 1), 0.0, 1.0, generator) * (d * n).sum(1, keepdim=True) * n)  # mostly low
        cosine = _uniform((B, 1), 0.5, 0.98, generator)
        edge = ((d @ L.T) - cosine) / 0.01
        visible = visible * (1 - here * edge.clamp(0, 1))
        m = _unit(torch.randn(B, 3, generator=generator) - 1.2 * d)
        m = torch.where((m * d).sum(1, keepdim=True) > 0, -m, m)
        factor = (1 - cosine**2) * ((d * n).sum(1, keepdim=True)).clamp(0.05, 1) * torch.rand(B, 1, generator=generator)
        light = here * factor * (m @ L.T).clamp_min(0)
        bounced = bounced + light * _lit_neighbour(d, L, generator)
    return visible, bounced


def _far_light(count: int, L: Tensor, generator: torch.Generator) -> Tensor:
    """Return light from distant parts of the object, (B, q): from a wide range of directions, on some points."""
    wide = _unit(torch.randn(count, 3, generator=generator)) @ L.T
    share = 0.25 * _sometimes(count, 0.4, generator) * torch.rand(count, 1, generator=generator) ** 2
    return share * (0.5 + 0.5 * wide).clamp_min(0) ** 1.5


def _lit_neighbour(d: Tensor, L: Tensor, generator: torch.Generator) -> Tensor:
    """Return which lights reach neighbours in directions d (B, 3): half of them are shaded from across the point."""
    across = _unit(0.6 * torch.randn(len(d), 3, generator=generator) - d)
    shade = ((across @ L.T) - _uniform((len(d), 1), 0.3, 0.98, generator)) / 0.05
    return 1 - _sometimes(len(d), 0.5, generator) * shade.clamp(0, 1)


def _mixed(values: Tensor, generator: torch.Generator) -> Tensor:
    """Mix some readings with those of another point: less than a third of the other."""
    share = _sometimes(len(values), 0.06, generator) * _uniform((len(values), 1), 0.0, 0.33, generator)
    return (1 - share) * values + share * values.roll(1, dims=0)


def _photograph(values: Tensor, generator: torch.Generator) -> Tensor:
    """Turn light into readings: noise, saturation, and occasionally a bad photograph."""
    B, q = values.shape
    scale = values.mean(1, keepdim=True) + 1e-9
    relative = 10 ** _uniform((B, 1), -3.5, -1.5, generator)
    floor = 10 ** _uniform((B, 1), -4.5, -1.8, generator)
    noisy = values * (1 + relative * torch.randn(B, q, generator=generator))
    noisy = noisy + floor * scale * torch.randn(B, q, generator=generator)
    clip = scale * _uniform((B, 1), 1.3, 6.0, generator)
    noisy = torch.where(_sometimes(B, 0.15, generator) > 0, torch.minimum(noisy, clip), noisy)
    spoiled = _sometimes(B, 0.2, generator) * _uniform((B, 1), 0.0, 0.15, generator)
    bad = torch.rand(B, q, generator=generator) < spoiled
    wrong = torch.where(
        torch.rand(B, q, generator=generator) < 0.5,
        noisy * torch.exp(torch.randn(B, q, generator=generator)),
        scale * 2 * torch.rand(B, q, generator=generator),
    )
    return torch.where(bad, wrong, noisy).clamp_min(0)


def _uniform(shape: int | tuple[int, ...], low: float, high: float, generator: torch.Generator) -> Tensor:
    return low + (high - low) * torch.rand(shape, generator=generator)


def _sometimes(count: int, chance: float, generator: torch.Generator) -> Tensor:
    """Return (count, 1) of zeros and ones."""
    return (torch.rand(count, 1, generator=generator) < chance).float()


def _polar(z: Tensor, angle: Tensor) -> Tensor:
    across = (1 - z * z).clamp_min(0).sqrt()
    return torch.stack([across * angle.cos(), across * angle.sin(), z], 1)


def _unit(v: Tensor) -> Tensor:
    unit: Tensor = v / v.norm(dim=-1, keepdim=True).clamp_min(1e-9)
    return unit
