"""Photographs that come with scikit-image and scikit-learn, as network inputs. Calibration and evaluation use different photographs."""
import os

import numpy as np
import torch
from PIL import Image

CALIBRATION = ["skimage/astronaut.png", "skimage/motorcycle_left.png", "sklearn/china.jpg", "skimage/hubble_deep_field.jpg"]
HELD_OUT = ["skimage/chelsea.png", "skimage/coffee.png", "sklearn/flower.jpg", "skimage/rocket.jpg",
             "skimage/retina.jpg", "skimage/camera.png", "skimage/ihc.png", "skimage/coins.png"]


def _path(name):
    import skimage
    import sklearn.datasets
    folders = {"skimage": os.path.join(os.path.dirname(skimage.__file__), "data"),
               "sklearn": os.path.join(os.path.dirname(sklearn.datasets.__file__), "images")}
    package, file = name.split("/")
    return os.path.join(folders[package], file)


def _tensor(image, mirrored, mean, std):
    pixels = np.asarray(image, np.float32) / 255.0
    if mirrored:
        pixels = pixels[:, ::-1]
    pixels = (pixels - np.array(mean, np.float32)) / np.array(std, np.float32)
    return torch.from_numpy(np.ascontiguousarray(pixels.transpose(2, 0, 1))).unsqueeze(0).clone(memory_format=torch.contiguous_format)


def _crops(names, count, mean, std, size, rng):
    """First the center square of each photograph, then random squares of 40 to 100 % of the short side; every third one mirrored."""
    result = []
    for i in range(count):
        name = names[i % len(names)]
        image = Image.open(_path(name)).convert("RGB")
        width, height = image.size
        if i < len(names):
            side = min(width, height)
            x, y = (width - side) // 2, (height - side) // 2
        else:
            side = int(min(width, height) * rng.uniform(0.4, 1.0))
            x, y = int(rng.integers(0, width - side + 1)), int(rng.integers(0, height - side + 1))
        image = image.crop((x, y, x + side, y + side)).resize((size, size), Image.BICUBIC)
        result.append((name.split("/")[1].split(".")[0] + ("" if i < len(names) else f" crop {i // len(names)}"),
                       _tensor(image, i % 3 == 2, mean, std)))
    return result


def photographs(calibration_count, held_out_count, mean, std, size=224, skipped=0):
    """Two lists of (title, tensor [1, 3, size, size]): for calibration, and held out for evaluation. The same on every call. skipped: this many of those held
    back are left out in front."""
    rng = np.random.default_rng(0)
    return (_crops(CALIBRATION, calibration_count, mean, std, size, rng),
            _crops(HELD_OUT, skipped + held_out_count, mean, std, size, rng)[skipped:])
