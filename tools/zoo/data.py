"""Inputs of the zoo's models: photographs, clips made of them, token ids with masks, sound. The
same on every call; calibration and evaluation see different data."""
import functools
import os
import sys

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "models"))
from photographs import photographs  # noqa: E402

CALIBRATION, HELD_OUT = 16, 8  # inputs of batch 1; a quantizer gets some of the first
IMAGENET = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])


@functools.lru_cache(maxsize=4)
def _crops(size):
    parts = photographs(CALIBRATION, HELD_OUT, *IMAGENET, size)
    return [[x for _, x in part] for part in parts]


def images(size):
    """(calibration, held out), each a list of tuples with one photograph [1, 3, size, size]."""
    return tuple([(x.clone(),) for x in part] for part in _crops(size))


def clips(frames, size):
    """Clips [1, 3, frames, size, size]: a photograph that moves."""
    def moving(x):
        return (torch.stack([torch.roll(x, 2 * k, 3) for k in range(frames)], 2),)
    return tuple([moving(x) for x in part] for part in _crops(size))


def _generator(index):
    return torch.Generator().manual_seed(1000 + index)


def _both(make):
    rows = [make(_generator(k)) for k in range(CALIBRATION + HELD_OUT)]
    return rows[:CALIBRATION], rows[CALIBRATION:]


def tokens(length, vocabulary, decoder_length=0):
    """Token ids [1, length] and a mask with up to a quarter of the sequence padded at its end; for
    encoder-decoders also the decoder's ids."""
    def make(generator):
        draw = functools.partial(torch.randint, 3, vocabulary, generator=generator)
        used = length - int(torch.randint(0, length // 4, (1,), generator=generator))
        mask = torch.zeros(1, length, dtype=torch.long)
        mask[:, :used] = 1
        ids = draw((1, length)) * mask + (1 - mask)
        return (ids, mask) + ((draw((1, decoder_length)),) if decoder_length else ())
    return _both(make)


def ids(length, vocabulary):
    """Token ids [1, length]."""
    return _both(lambda generator: (
        torch.randint(3, vocabulary, (1, length), generator=generator),))


def _sound(samples, generator):
    """Five tones and noise, [1, samples], about one in size."""
    at = torch.arange(samples) / 16000
    tones = 80 * 2 ** (5 * torch.rand(5, 1, generator=generator))
    sizes = torch.rand(5, 1, generator=generator)
    wave = (sizes * torch.sin(2 * torch.pi * tones * at)).sum(0, keepdim=True)
    return wave + 0.1 * torch.randn(1, samples, generator=generator)


def sounds(samples):
    """Sound [1, samples] at 16 kHz."""
    return _both(lambda generator: (_sound(samples, generator),))


def spectrograms(bins, frames, is_bins_first=True):
    """Logarithms of a sound's spectrum, normalized: [1, bins, frames] or [1, frames, bins]."""
    def make(generator):
        hop = 160
        wave = _sound(hop * (frames + 4), generator)[0]
        window = torch.hann_window(400)
        power = torch.stft(wave, 400, hop, window=window, return_complex=True).abs()[:, :frames]
        shape = (bins, frames)
        power = torch.nn.functional.interpolate(power[None, None], shape, mode="bilinear")[0]
        logs = (power + 1e-4).log()
        logs = (logs - logs.mean()) / logs.std()
        return (logs if is_bins_first else logs.transpose(1, 2).contiguous(),)
    return _both(make)


def normal(*shape):
    """Tensors of normal numbers."""
    return _both(lambda generator: (torch.randn(shape, generator=generator),))


def joined(*parts):
    """The inputs of several of the above, one after the other, for a model that takes them all."""
    return tuple([sum(rows, ()) for rows in zip(*sides)] for sides in zip(*parts))
