"""Networks on images, written with torch.nn: classifiers, segmentation, detection, generation, flow and video."""
import math

import torch
from torch import nn
from torch.nn import functional as F

from .registry import Attention, Block, Lambda, Residual, architecture, conv, draw, images, pool


@architecture()
def resnet():
    def stage(inputs, outputs, stride):
        return nn.Sequential(Residual(conv(inputs, outputs, stride=stride), conv(outputs, outputs, act=None), shortcut=conv(inputs, outputs, 1, stride, act=None)), nn.ReLU())
    return images(nn.Sequential(conv(3, 16, 7, 2), nn.MaxPool2d(3, 2, 1), stage(16, 16, 1), stage(16, 32, 2), stage(32, 48, 2), pool(), nn.Linear(48, 10)))


class SqueezeExcite(nn.Module):
    def __init__(self, width, gate=nn.Sigmoid):
        super().__init__()
        self.body = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(width, width // 4, 1), nn.ReLU(), nn.Conv2d(width // 4, width, 1), gate())

    def forward(self, x):
        return x * self.body(x)


@architecture()
def resnext():
    def stage(inputs, outputs, stride):
        return nn.Sequential(Residual(conv(inputs, outputs, 1), conv(outputs, outputs, 3, stride, 8), conv(outputs, outputs, 1, act=None), SqueezeExcite(outputs),
                                      shortcut=conv(inputs, outputs, 1, stride, act=None)), nn.ReLU())
    return images(nn.Sequential(conv(3, 16, 3, 2), stage(16, 32, 1), stage(32, 64, 2), pool(), nn.Linear(64, 10)))


class Dense(nn.Module):
    def __init__(self, width, growth, layers):
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.BatchNorm2d(width + i * growth), nn.ReLU(), nn.Conv2d(width + i * growth, growth, 3, padding=1, bias=False)) for i in range(layers))

    def forward(self, x):
        for layer in self.layers:
            x = torch.cat([x, layer(x)], 1)
        return x


@architecture()
def densenet():
    return images(nn.Sequential(conv(3, 16), Dense(16, 8, 4), conv(48, 24, 1), nn.AvgPool2d(2), Dense(24, 8, 4), nn.BatchNorm2d(56), nn.ReLU(), pool(), nn.Linear(56, 10)))


def inverted(inputs, outputs, stride, act, squeeze=False, kernel=3):
    wide = inputs * 3
    layers = [conv(inputs, wide, 1, act=act), conv(wide, wide, kernel, stride, wide, act)] + ([SqueezeExcite(wide, nn.Hardsigmoid)] if squeeze else []) + [conv(wide, outputs, 1, act=None)]
    return Residual(*layers) if stride == 1 and inputs == outputs else nn.Sequential(*layers)


@architecture()
def mobilenet_v2():
    return images(nn.Sequential(conv(3, 16, 3, 2, act=nn.ReLU6), inverted(16, 16, 1, nn.ReLU6), inverted(16, 24, 2, nn.ReLU6), inverted(24, 24, 1, nn.ReLU6), pool(), nn.Linear(24, 10)))


@architecture()
def mobilenet_v3():
    return images(nn.Sequential(conv(3, 16, 3, 2, act=nn.Hardswish), inverted(16, 16, 1, nn.ReLU, True), inverted(16, 24, 2, nn.Hardswish, True, 5), pool(), nn.Linear(24, 32), nn.Hardswish(),
                                nn.Dropout(), nn.Linear(32, 10)))


@architecture()
def efficientnet():
    return images(nn.Sequential(conv(3, 16, 3, 2, act=nn.SiLU), inverted(16, 16, 1, nn.SiLU, True), inverted(16, 24, 2, nn.SiLU, True, 5), inverted(24, 24, 1, nn.SiLU, True, 5), pool(), nn.Linear(24, 10)))


class Shuffle(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(conv(width // 2, width // 2, 1), conv(width // 2, width // 2, 3, 1, width // 2, None), conv(width // 2, width // 2, 1))

    def forward(self, x):
        kept, changed = x.chunk(2, 1)
        return torch.cat([kept, self.body(changed)], 1).unflatten(1, (2, -1)).transpose(1, 2).flatten(1, 2)


@architecture()
def shufflenet():
    return images(nn.Sequential(conv(3, 16, 3, 2), nn.MaxPool2d(3, 2, 1), Shuffle(16), Shuffle(16), conv(16, 32, 1), Shuffle(32), pool(), nn.Linear(32, 10)))


class Fire(nn.Module):
    def __init__(self, inputs, squeeze, expand):
        super().__init__()
        self.squeeze, self.one, self.three = nn.Conv2d(inputs, squeeze, 1), nn.Conv2d(squeeze, expand, 1), nn.Conv2d(squeeze, expand, 3, padding=1)

    def forward(self, x):
        x = self.squeeze(x).relu()
        return torch.cat([self.one(x).relu(), self.three(x).relu()], 1)


@architecture()
def squeezenet():
    return images(nn.Sequential(nn.Conv2d(3, 16, 3, 2), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True), Fire(16, 8, 16), Fire(32, 8, 16), nn.MaxPool2d(3, 2, ceil_mode=True), Fire(32, 12, 24),
                                nn.Conv2d(48, 10, 1), nn.ReLU(), pool()), (1, 3, 37, 33), (2, 3, 46, 51))


class Inception(nn.Module):
    def __init__(self, inputs):
        super().__init__()
        self.paths = nn.ModuleList([conv(inputs, 8, 1), nn.Sequential(conv(inputs, 8, 1), nn.Conv2d(8, 12, (1, 7), padding=(0, 3)), nn.Conv2d(12, 12, (7, 1), padding=(3, 0))),
                                    nn.Sequential(nn.AvgPool2d(3, 1, 1, count_include_pad=False), conv(inputs, 8, 1)), nn.Sequential(nn.MaxPool2d(3, 1, 1), conv(inputs, 8, 1))])

    def forward(self, x):
        return torch.cat([path(x) for path in self.paths], 1)


@architecture()
def inception():
    return images(nn.Sequential(conv(3, 16, 3, 2), Inception(16), nn.MaxPool2d(3, 2), Inception(36), nn.LocalResponseNorm(5), pool(), nn.Linear(36, 10)))


@architecture(fixed=True)
def vgg():
    """The adaptive pooling to 3 x 3 and the classifier on what it leaves need a fixed size."""
    return images(nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 24, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(3), nn.Flatten(),
                                nn.Linear(216, 64), nn.ReLU(), nn.Linear(64, 10)), (1, 3, 24, 24), (2, 3, 36, 48))


class ChannelsLast(nn.Module):
    """A layer on the last axis, applied to images."""
    def __init__(self, *layers):
        super().__init__()
        self.body = nn.Sequential(*layers)

    def forward(self, x):
        return self.body(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


@architecture()
def convnext():
    class Scale(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.gamma = nn.Parameter(torch.full((width,), 0.3))

        def forward(self, x):
            return x * self.gamma

    def block(width):
        return Residual(nn.Conv2d(width, width, 7, padding=3, groups=width), ChannelsLast(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), Scale(width)))
    return images(nn.Sequential(nn.Conv2d(3, 24, 4, 4), ChannelsLast(nn.LayerNorm(24)), block(24), block(24), ChannelsLast(nn.LayerNorm(24)), nn.Conv2d(24, 32, 2, 2), block(32), pool(),
                                nn.LayerNorm(32), nn.Linear(32, 10)))


class Vit(nn.Module):
    """Position embeddings are resized to the image, so that the size is dynamic."""
    def __init__(self, width=32):
        super().__init__()
        self.patch, self.token, self.position = nn.Conv2d(3, width, 8, 8), nn.Parameter(draw(1, 1, width)), nn.Parameter(draw(1, width, 4, 4))
        self.blocks, self.norm, self.head = nn.Sequential(Block(width), Block(width)), nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, x):
        x = self.patch(x)
        x = (x + F.interpolate(self.position, x.shape[-2:], mode="bicubic", align_corners=False)).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1)
        return self.head(self.norm(self.blocks(x))[:, 0])


@architecture("dynamo", "dynamo-23", "script")
def vit():
    return images(Vit())


class Window(nn.Module):
    """Attention in windows of 4 x 4 pixels, shifted by half a window, with a bias of relative positions."""
    def __init__(self, width, shift, heads=4):
        super().__init__()
        self.norms, self.shift, self.heads = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)]), shift, heads
        self.qkv, self.out, self.bias = nn.Linear(width, 3 * width), nn.Linear(width, width), nn.Parameter(draw(49, heads))
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        at = torch.stack(torch.meshgrid(torch.arange(4), torch.arange(4), indexing="ij")).flatten(1)
        apart = at[:, :, None] - at[:, None, :] + 3
        self.register_buffer("index", apart[0] * 7 + apart[1])

    def forward(self, x):
        batch, height, width, channels = x.shape
        y = torch.roll(self.norms[0](x), (-self.shift, -self.shift), (1, 2))
        y = y.reshape(batch, height // 4, 4, width // 4, 4, channels).transpose(2, 3).reshape(-1, 16, channels)
        q, k, v = self.qkv(y).reshape(-1, 16, 3, self.heads, channels // self.heads).permute(2, 0, 3, 1, 4)
        weights = (q @ k.transpose(-1, -2) / math.sqrt(channels // self.heads) + self.bias[self.index].permute(2, 0, 1)).softmax(-1)
        y = self.out((weights @ v).transpose(1, 2).reshape(-1, 16, channels))
        y = y.reshape(batch, height // 4, width // 4, 4, 4, channels).transpose(2, 3).reshape(batch, height, width, channels)
        x = x + torch.roll(y, (self.shift, self.shift), (1, 2))
        return x + self.mlp(self.norms[1](x))


@architecture("dynamo", "dynamo-23", "script")
def swin():
    class Merge(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.norm, self.reduce = nn.LayerNorm(4 * width), nn.Linear(4 * width, 2 * width, bias=False)

        def forward(self, x):
            return self.reduce(self.norm(torch.cat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], -1)))

    body = nn.Sequential(nn.Conv2d(3, 16, 2, 2), Lambda(lambda x: x.permute(0, 2, 3, 1)), nn.LayerNorm(16), Window(16, 0), Window(16, 2), Merge(16), Window(32, 0), Window(32, 2), nn.LayerNorm(32),
                         Lambda(lambda x: x.mean((1, 2))), nn.Linear(32, 10))
    return images(body, (1, 3, 32, 32), (2, 3, 48, 64))


@architecture()
def mlp_mixer():
    class Mixer(nn.Module):
        def __init__(self, tokens, width):
            super().__init__()
            self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
            self.tokens = nn.Sequential(nn.Linear(tokens, 32), nn.GELU(), nn.Linear(32, tokens))
            self.channels = nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, width))

        def forward(self, x):
            x = x + self.tokens(self.norms[0](x).transpose(1, 2)).transpose(1, 2)
            return x + self.channels(self.norms[1](x))
    return images(nn.Sequential(nn.Conv2d(3, 24, 8, 8), nn.Flatten(2), Lambda(lambda x: x.transpose(1, 2)), Mixer(16, 24), Mixer(16, 24), nn.LayerNorm(24), Lambda(lambda x: x.mean(1)), nn.Linear(24, 10)),
                  (1, 3, 32, 32), (4, 3, 32, 32))


class Unet(nn.Module):
    """The decoder pads what it has enlarged, because extents that are odd lose a row or a column on the way down."""
    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([nn.Sequential(conv(i, o), conv(o, o)) for i, o in ((3, 8), (8, 16), (16, 32))])
        self.up = nn.ModuleList([nn.ConvTranspose2d(32, 16, 2, 2), nn.ConvTranspose2d(16, 8, 2, 2)])
        self.join = nn.ModuleList([nn.Sequential(conv(32, 16), conv(16, 16)), nn.Sequential(conv(16, 8), conv(8, 8))])
        self.head = nn.Conv2d(8, 2, 1)

    def forward(self, x):
        kept = []
        for index, layer in enumerate(self.down):
            x = layer(F.max_pool2d(x, 2) if index else x)
            kept.append(x)
        for up, join, skip in zip(self.up, self.join, (kept[1], kept[0])):
            x = up(x)
            x = F.pad(x, (0, skip.shape[-1] - x.shape[-1], 0, skip.shape[-2] - x.shape[-2]))
            x = join(torch.cat([skip, x], 1))
        return self.head(x)


@architecture()
def unet():
    return images(Unet(), (1, 3, 34, 38), (2, 3, 51, 45))


class DeepLab(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(conv(3, 16, 3, 2), conv(16, 24, 3, 2))
        self.rates = nn.ModuleList([conv(24, 8, 1), conv(24, 8, dilation=2), conv(24, 8, dilation=4)])
        self.whole, self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(24, 8, 1), nn.ReLU()), nn.Sequential(conv(32, 16, 1), nn.Conv2d(16, 5, 1))

    def forward(self, x):
        y = self.body(x)
        parts = [rate(y) for rate in self.rates] + [F.interpolate(self.whole(y), y.shape[-2:], mode="bilinear", align_corners=False)]
        y = F.interpolate(self.head(torch.cat(parts, 1)), x.shape[-2:], mode="bilinear", align_corners=False)
        return y, y.argmax(1)


@architecture()
def deeplab():
    return images(DeepLab(), (1, 3, 33, 41), (2, 3, 48, 50))


class Pyramid(nn.Module):
    """A feature pyramid with heads of classes and boxes, as in RetinaNet."""
    def __init__(self):
        super().__init__()
        self.stages = nn.ModuleList([conv(3, 16, 3, 2), conv(16, 24, 3, 2), conv(24, 32, 3, 2)])
        self.side, self.smooth = nn.ModuleList([nn.Conv2d(c, 16, 1) for c in (16, 24, 32)]), nn.ModuleList([nn.Conv2d(16, 16, 3, padding=1) for _ in range(3)])
        self.classes, self.boxes = nn.Conv2d(16, 3 * 4, 3, padding=1), nn.Conv2d(16, 3 * 4, 3, padding=1)

    def forward(self, x):
        maps = []
        for stage, side in zip(self.stages, self.side):
            x = stage(x)
            maps.append(side(x))
        for finer, coarser in ((1, 2), (0, 1)):
            maps[finer] = maps[finer] + F.interpolate(maps[coarser], maps[finer].shape[-2:], mode="nearest")
        maps = [smooth(m) for smooth, m in zip(self.smooth, maps)]
        flat = [[head(m).unflatten(1, (3, 4)).permute(0, 3, 4, 1, 2).flatten(1, 3) for m in maps] for head in (self.classes, self.boxes)]
        return torch.cat(flat[0], 1).sigmoid(), torch.cat(flat[1], 1)


@architecture("dynamo", "dynamo-23", "script")
def retinanet():
    return images(Pyramid(), (1, 3, 32, 48), (2, 3, 45, 39))


class Yolo(nn.Module):
    """One head of boxes on a grid, and torch's own suppression replaced by the operator of ONNX (see operators.py)."""
    def __init__(self, classes=4):
        super().__init__()
        self.body, self.head, self.classes = nn.Sequential(conv(3, 16, 3, 2, act=nn.SiLU), conv(16, 24, 3, 2, act=nn.SiLU)), nn.Conv2d(24, 5 + classes, 1), classes

    def forward(self, x):
        y = self.head(self.body(x))
        rows, columns = torch.meshgrid(torch.arange(y.shape[2]), torch.arange(y.shape[3]), indexing="ij")
        y = y.permute(0, 2, 3, 1)
        centre = (y[..., :2].sigmoid() * 2 - 0.5 + torch.stack([columns, rows], -1)) * 4
        size = (y[..., 2:4].sigmoid() * 2) ** 2 * 8
        boxes = torch.cat([centre - size / 2, centre + size / 2], -1).flatten(1, 2)
        scores = (y[..., 4:5].sigmoid() * y[..., 5:].sigmoid()).flatten(1, 2).transpose(1, 2)
        return boxes, scores, torch.ops.generated.suppress(boxes, scores)


@architecture()
def yolo():
    return images(Yolo(), (1, 3, 32, 32), (2, 3, 40, 48))


class CenterNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.heat, self.size = nn.Sequential(conv(3, 16, 3, 2), conv(16, 16)), nn.Conv2d(16, 3, 1), nn.Conv2d(16, 2, 1)

    def forward(self, x):
        y = self.body(x)
        heat = self.heat(y).sigmoid()
        heat = heat * (F.max_pool2d(heat, 3, 1, 1) == heat)
        best, kind = heat.max(1)
        scores, at = best.flatten(1).topk(20)
        rows, columns = torch.meshgrid(torch.arange(heat.shape[2]), torch.arange(heat.shape[3]), indexing="ij")
        size = self.size(y).flatten(2).gather(2, at[:, None].expand(-1, 2, -1))
        return scores, kind.flatten(1).gather(1, at), rows.flatten()[at], columns.flatten()[at], size


@architecture()
def centernet():
    return images(CenterNet())


class Detr(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.body, self.project = nn.Sequential(conv(3, 16, 3, 2), conv(16, 24, 3, 2)), nn.Conv2d(24, width, 1)
        self.encoder, self.decoder = nn.ModuleList([Block(width)]), nn.ModuleList([Block(width, cross=True), Block(width, cross=True)])
        self.query, self.classes, self.boxes = nn.Parameter(draw(7, width)), nn.Linear(width, 5), nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 4))
        self.width = width

    def positions(self, x):
        ones = torch.ones_like(x[:, 0])
        parts = []
        for axis in (1, 2):
            at = ones.cumsum(axis)
            at = at / (at.select(axis, -1).unsqueeze(axis) + 1e-6) * 6.28
            angle = at[..., None] / 10000 ** (torch.arange(self.width // 4) / (self.width // 4))
            parts += [angle.sin(), angle.cos()]
        return torch.cat(parts, -1).flatten(1, 2)

    def forward(self, x):
        y = self.project(self.body(x))
        memory = y.flatten(2).transpose(1, 2) + self.positions(y)
        for layer in self.encoder:
            memory = layer(memory)
        out = self.query.expand(x.shape[0], -1, -1)
        for layer in self.decoder:
            out = layer(out, memory)
        return self.classes(out), self.boxes(out).sigmoid()


@architecture("dynamo", "dynamo-23", "script")
def detr():
    return images(Detr())


@architecture()
def gan_generator():
    module = nn.Sequential(nn.ConvTranspose2d(16, 32, 4, 1, 0, bias=False), nn.BatchNorm2d(32), nn.ReLU(), nn.ConvTranspose2d(32, 16, 4, 2, 1, bias=False), nn.BatchNorm2d(16), nn.LeakyReLU(0.2),
                           nn.ConvTranspose2d(16, 8, 3, 2, 1, output_padding=1, groups=4), nn.ReLU(), nn.ConvTranspose2d(8, 3, 4, 2, 1), nn.Tanh())
    return images(module, (1, 16, 1, 1), (5, 16, 1, 1))


@architecture()
def gan_discriminator():
    def layer(i, o, normalise=True):
        return nn.Sequential(nn.Conv2d(i, o, 4, 2, 1), *([nn.InstanceNorm2d(o, affine=True)] if normalise else []), nn.LeakyReLU(0.2))
    return images(nn.Sequential(layer(3, 8, False), layer(8, 16), layer(16, 24), nn.Conv2d(24, 1, 3, padding=1)))


class StyleGan(nn.Module):
    """Convolutions whose weights are scaled by the style of each sample: products with unfolded patches."""
    def __init__(self, width=16):
        super().__init__()
        self.mapping = nn.Sequential(*[layer for _ in range(3) for layer in (nn.Linear(width, width), nn.LeakyReLU(0.2))])
        self.constant, self.weight, self.style, self.rgb = nn.Parameter(draw(1, width, 4, 4)), nn.Parameter(draw(2, width, width, 3, 3)), nn.ModuleList([nn.Linear(width, width) for _ in range(2)]), nn.Conv2d(width, 3, 1)

    def forward(self, z):
        w = self.mapping(z / (z.square().mean(1, keepdim=True) + 1e-8).sqrt())
        x = self.constant.expand(z.shape[0], -1, -1, -1)
        for weight, style in zip(self.weight, self.style):
            x = F.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=True)
            kernel = weight * style(w)[:, None, :, None, None]
            kernel = kernel * torch.rsqrt(kernel.square().sum((2, 3, 4), keepdim=True) + 1e-8)
            patches = F.unfold(x, 3, padding=1)
            x = (kernel.flatten(2) @ patches).unflatten(2, (x.shape[2], x.shape[3]))
            x = F.leaky_relu(x, 0.2)
        return self.rgb(x)


@architecture()
def stylegan():
    return StyleGan(), {"z": draw(1, 16)}, {"z": draw(3, 16)}


class Vae(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(1, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 16, 3, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(784, 16))
        self.decoder = nn.Sequential(nn.Linear(8, 784), nn.ReLU(), nn.Unflatten(1, (16, 7, 7)), nn.ConvTranspose2d(16, 8, 3, 2, 1, 1), nn.ReLU(), nn.ConvTranspose2d(8, 1, 3, 2, 1, 1), nn.Sigmoid())

    def forward(self, x, noise):
        mean, logarithm = self.encoder(x).chunk(2, 1)
        return self.decoder(mean + noise * (0.5 * logarithm).exp()), -0.5 * (1 + logarithm - mean ** 2 - logarithm.exp()).sum(1)


@architecture()
def vae():
    return Vae(), {"x": draw(1, 1, 28, 28), "noise": draw(1, 8)}, {"x": draw(6, 1, 28, 28), "noise": draw(6, 8)}


class VectorQuantised(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Conv2d(3, 8, 4, 4), nn.ConvTranspose2d(8, 3, 4, 4)
        self.codes = nn.Embedding(32, 8)

    def forward(self, x):
        y = self.encoder(x).permute(0, 2, 3, 1)
        flat = y.reshape(-1, 8)
        distance = flat.square().sum(1, keepdim=True) - 2 * flat @ self.codes.weight.t() + self.codes.weight.square().sum(1)
        index = distance.argmin(1)
        return self.decoder(self.codes(index).reshape(y.shape).permute(0, 3, 1, 2)), index


@architecture()
def vq_vae():
    return images(VectorQuantised())


@architecture()
def super_resolution():
    return images(nn.Sequential(nn.Conv2d(1, 16, 5, padding=2), nn.Tanh(), nn.Conv2d(16, 16, 3, padding=1), nn.PReLU(16), nn.Conv2d(16, 9, 3, padding=1), nn.PixelShuffle(3)), (1, 1, 16, 20), (2, 1, 23, 19))


@architecture()
def restoration():
    """PixelUnshuffle, a gate of two halves and a residual image, as in restoration networks without activations."""
    class Gate(nn.Module):
        def forward(self, x):
            a, b = x.chunk(2, 1)
            return a * b
    body = Residual(nn.PixelUnshuffle(2), nn.Conv2d(12, 32, 1), Gate(), nn.Conv2d(16, 12, 3, padding=1, padding_mode="reflect"), nn.PixelShuffle(2))
    return images(body, (1, 3, 24, 32), (2, 3, 36, 28))


class Flow(nn.Module):
    """Optical flow: correlation of features over displacements, and the second image warped by GridSample."""
    def __init__(self):
        super().__init__()
        self.features, self.head = nn.Sequential(conv(3, 8, 3, 2), conv(8, 8)), nn.Conv2d(25, 2, 3, padding=1)

    def forward(self, first, second):
        a, b = self.features(first), self.features(second)
        wide, (height, width) = F.pad(b, (2, 2, 2, 2)), (a.shape[2], a.shape[3])
        cost = torch.stack([(a * wide[:, :, dy:dy + height, dx:dx + width]).mean(1) for dy in range(5) for dx in range(5)], 1)
        flow = self.head(cost)
        rows, columns = torch.meshgrid(torch.arange(height) * 2 / (height - 1) - 1, torch.arange(width) * 2 / (width - 1) - 1, indexing="ij")
        grid = torch.stack([columns, rows], -1) + flow.permute(0, 2, 3, 1) * 0.1
        return flow, F.grid_sample(b, grid, mode="bilinear", padding_mode="zeros", align_corners=True), F.grid_sample(b, grid, mode="bicubic", padding_mode="border", align_corners=False)


@architecture()
def optical_flow():
    return Flow(), {"first": draw(1, 3, 32, 24), "second": draw(1, 3, 32, 24)}, {"first": draw(2, 3, 40, 36), "second": draw(2, 3, 40, 36)}


class Transformer2d(nn.Module):
    def __init__(self):
        super().__init__()
        self.locate, self.body = nn.Sequential(nn.Conv2d(1, 4, 5, 2), nn.ReLU(), pool(), nn.Linear(4, 6)), nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), pool(), nn.Linear(8, 10))

    def forward(self, x):
        theta = self.locate(x).view(-1, 2, 3) * 0.1 + torch.eye(2, 3)
        return self.body(F.grid_sample(x, F.affine_grid(theta, x.shape, align_corners=False), mode="nearest", padding_mode="reflection", align_corners=False)), theta


@architecture("dynamo", fixed=True)  # the other exporter writes AffineGrid from opset 20 on
def spatial_transformer():
    return images(Transformer2d(), (1, 1, 28, 28), (3, 1, 20, 24))


@architecture()
def style_transfer():
    def layer(i, o, kernel, stride):
        return nn.Sequential(nn.ReflectionPad2d(kernel // 2), nn.Conv2d(i, o, kernel, stride), nn.InstanceNorm2d(o, affine=True))
    body = nn.Sequential(layer(3, 8, 5, 1), nn.ReLU(), layer(8, 16, 3, 2), nn.ReLU(), Residual(layer(16, 16, 3, 1), nn.ReLU(), layer(16, 16, 3, 1)), nn.Upsample(scale_factor=2), layer(16, 8, 3, 1), nn.ReLU(),
                         nn.ReplicationPad2d(2), nn.Conv2d(8, 3, 5), nn.Sigmoid())
    return images(body, (1, 3, 24, 24), (2, 3, 32, 28))


class Hourglass(nn.Module):
    def __init__(self, depth=3, width=16):
        super().__init__()
        self.side, self.down, self.up = conv(width, width), conv(width, width), conv(width, width)
        self.inner = Hourglass(depth - 1, width) if depth > 1 else conv(width, width)

    def forward(self, x):
        return self.side(x) + F.interpolate(self.up(self.inner(self.down(F.max_pool2d(x, 2)))), scale_factor=2, mode="nearest")


@architecture()
def hourglass():
    return images(nn.Sequential(conv(3, 16), Hourglass(), nn.Conv2d(16, 5, 1)), (1, 3, 32, 24), (2, 3, 40, 48))


class Capsules(nn.Module):
    """Dynamic routing between 72 capsules and 5 classes."""
    def __init__(self):
        super().__init__()
        self.first, self.weight = nn.Conv2d(1, 16, 5, 4), nn.Parameter(draw(72, 5, 8, 8) * 0.3)

    @staticmethod
    def squash(x):
        square = x.square().sum(-1, keepdim=True)
        return square / (1 + square) * x / (square + 1e-8).sqrt()

    def forward(self, x):
        u = self.squash(self.first(x).unflatten(1, (2, 8)).permute(0, 1, 3, 4, 2).flatten(1, 3))
        votes = torch.einsum("bni,ncij->bncj", u, self.weight)
        logits = torch.zeros_like(votes[..., 0])
        for _ in range(3):
            out = self.squash((logits.softmax(2)[..., None] * votes).sum(1))
            logits = logits + (votes * out[:, None]).sum(-1)
        return out, out.norm(dim=-1)


@architecture()
def capsules():
    return images(Capsules(), (1, 1, 28, 28), (4, 1, 28, 28))


@architecture()
def video_r3d():
    def layer(i, o, stride=1):
        return nn.Sequential(nn.Conv3d(i, o, 3, stride, 1, bias=False), nn.BatchNorm3d(o), nn.ReLU())
    body = nn.Sequential(layer(3, 8), Residual(layer(8, 8)), nn.MaxPool3d(2), layer(8, 16, 2), nn.AvgPool3d(2), nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(16, 5))
    return images(body, (1, 3, 8, 16, 16), (2, 3, 10, 20, 18))


@architecture()
def video_p3d():
    """Space and time apart: convolutions 1 x 3 x 3 and 3 x 1 x 1, and a transposed convolution back."""
    body = nn.Sequential(nn.Conv3d(3, 8, (1, 3, 3), padding=(0, 1, 1)), nn.ELU(), nn.Conv3d(8, 8, (3, 1, 1), (2, 1, 1), (1, 0, 0)), nn.GroupNorm(2, 8), nn.Softplus(),
                         nn.ConvTranspose3d(8, 4, 2, 2), nn.Upsample(scale_factor=(1, 2, 2), mode="trilinear", align_corners=False))
    return images(body, (1, 3, 4, 8, 8), (2, 3, 6, 10, 7))


class ConvLstm(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.gates, self.head, self.width = nn.Conv2d(3 + width, 4 * width, 3, padding=1), nn.Conv2d(width, 1, 1), width

    def forward(self, x):
        h = c = x.new_zeros(x.shape[0], self.width, x.shape[3], x.shape[4])
        for step in range(4):
            i, f, g, o = self.gates(torch.cat([x[:, step], h], 1)).chunk(4, 1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
        return self.head(h), c


@architecture()
def conv_lstm():
    return images(ConvLstm(), (1, 4, 3, 12, 12), (2, 4, 3, 16, 10))


class DiffusionUnet(nn.Module):
    """Residual blocks with an embedding of the time step, GroupNorm, and attention in the middle."""
    def __init__(self, width=16):
        super().__init__()
        self.first, self.last = nn.Conv2d(3, width, 3, padding=1), nn.Sequential(nn.GroupNorm(4, width), nn.SiLU(), nn.Conv2d(width, 3, 3, padding=1))
        self.time = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
        self.down, self.up = nn.Conv2d(width, width, 3, 2, 1), nn.Conv2d(width, width, 3, padding=1)
        self.blocks = nn.ModuleList(nn.ModuleList([nn.Sequential(nn.GroupNorm(4, width), nn.SiLU(), nn.Conv2d(width, width, 3, padding=1)) for _ in range(2)]) for _ in range(3))
        self.norm, self.attention = nn.GroupNorm(4, width), Attention(width, 2)
        self.width = width

    def block(self, index, x, time):
        return x + self.blocks[index][1](self.blocks[index][0](x) + time[:, :, None, None])

    def forward(self, x, step):
        angle = step[:, None].float() * torch.exp(-math.log(10000.0) * torch.arange(self.width // 2) / (self.width // 2))
        time = self.time(torch.cat([angle.sin(), angle.cos()], 1))
        x = self.first(x)
        skip = x = self.block(0, x, time)
        x = self.block(1, self.down(x), time)
        flat = self.norm(x).flatten(2).transpose(1, 2)
        x = x + self.attention(flat).transpose(1, 2).unflatten(2, (x.shape[2], x.shape[3]))
        x = self.up(F.interpolate(x, scale_factor=2.0, mode="nearest"))
        return self.last(self.block(2, x + skip, time))


@architecture("dynamo", "dynamo-23", "script")
def diffusion_unet():
    return DiffusionUnet(), {"x": draw(1, 3, 16, 16), "step": torch.tensor([7])}, {"x": draw(3, 3, 24, 20), "step": torch.tensor([0, 500, 999])}


class PointNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.turn = nn.Sequential(nn.Conv1d(3, 16, 1), nn.BatchNorm1d(16), nn.ReLU(), nn.AdaptiveMaxPool1d(1), nn.Flatten(), nn.Linear(16, 9))
        self.body, self.head = nn.Sequential(nn.Conv1d(3, 32, 1), nn.BatchNorm1d(32), nn.ReLU(), nn.Conv1d(32, 32, 1)), nn.Linear(32, 6)

    def forward(self, x):
        turned = torch.bmm(x.transpose(1, 2), self.turn(x).view(-1, 3, 3) + torch.eye(3)).transpose(1, 2)
        return self.head(self.body(turned).max(2).values).log_softmax(1)


@architecture()
def pointnet():
    return images(PointNet(), (1, 3, 50), (3, 3, 77))


class Nerf(nn.Module):
    """Positional encoding, a network of densities and colours, and the colour of each ray by compositing."""
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(39, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))

    def forward(self, points, depths):
        scaled = points[..., None] * 2.0 ** torch.arange(6)
        encoded = torch.cat([points, scaled.sin().flatten(-2), scaled.cos().flatten(-2)], -1)
        out = self.body(encoded)
        gaps = torch.cat([depths[:, 1:] - depths[:, :-1], torch.full_like(depths[:, :1], 10.0)], 1)
        alpha = 1 - torch.exp(-F.softplus(out[..., 3]) * gaps)
        passing = torch.cat([torch.zeros_like(alpha[:, :1]), torch.cumsum(torch.log(1 - alpha + 1e-10), 1)[:, :-1]], 1).exp()
        weights = alpha * passing
        return (weights[..., None] * out[..., :3].sigmoid()).sum(1), (weights * depths).sum(1)


@architecture()
def nerf():
    def rays(count, samples):
        return {"points": draw(count, samples, 3), "depths": torch.rand(count, samples).sort(1).values}
    return Nerf(), rays(5, 8), rays(17, 12)


@architecture()
def resnet_f16():
    model, small, large = resnet()
    return model.half(), {"x": small["x"].half()}, {"x": large["x"].half()}


@architecture()
def unet_f16():
    model, small, large = unet()
    return model.half(), {"x": small["x"].half()}, {"x": large["x"].half()}
