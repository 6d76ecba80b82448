"""Taggers of sequences with PyTorch's recurrent layers, and recurrent networks over images."""
import functools

import data
from entry import Entry
from torch import nn

WORDS, TAGS = 1000, 12


class Tagger(nn.Module):
    """A tag for each token: embedding, recurrent layers, linear."""

    def __init__(self, kind, **options):
        super().__init__()
        self.table = nn.Embedding(WORDS, 64)
        self.layers = getattr(nn, kind)(64, 96, batch_first=True, **options)
        width = 96 * (2 if options.get("bidirectional") else 1)
        self.head = nn.Linear(options.get("proj_size", 0) or width, TAGS)

    def forward(self, tokens, mask):
        states, _ = self.layers(self.table(tokens) * mask.unsqueeze(-1))
        return self.head(states)


class Reader(nn.Module):
    """Convolutions over a line of text, a recurrent layer over its columns."""

    def __init__(self):
        super().__init__()
        widths = (3, 16, 32, 64)
        blocks = [[nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(),
                   nn.MaxPool2d((2, 1))] for a, b in zip(widths, widths[1:])]
        self.columns = nn.Sequential(*sum(blocks, []))
        self.layers = nn.LSTM(64 * 4, 64, bidirectional=True, batch_first=True)
        self.head = nn.Linear(128, 40)

    def forward(self, x):
        columns = self.columns(x).flatten(1, 2).transpose(1, 2)
        return self.head(self.layers(columns)[0]).log_softmax(-1)


class Cells(nn.Module):
    """A cell called step by step, with attention over what came before."""

    def __init__(self, kind):
        super().__init__()
        self.cell = getattr(nn, kind)(32, 48)
        self.query, self.head = nn.Linear(48, 32), nn.Linear(48 + 32, TAGS)

    def forward(self, x):
        state = x.new_zeros(x.shape[0], 48)
        for step in range(x.shape[1]):
            state = self.cell(x[:, step], state)
        scores = (x @ self.query(state).unsqueeze(-1)).softmax(1)
        return self.head(nn.functional.relu(
            nn.functional.pad(state, (0, 32)) + nn.functional.pad((scores * x).sum(1), (48, 0))))


def entries():
    taggers = {
        "lstm_tagger": ("LSTM", {}),
        "bilstm_tagger": ("LSTM", {"bidirectional": True, "num_layers": 2}),
        "projected_lstm_tagger": ("LSTM", {"proj_size": 32}),
        "gru_tagger": ("GRU", {}),
        "bigru_tagger": ("GRU", {"bidirectional": True, "num_layers": 2}),
        "rnn_tagger": ("RNN", {"nonlinearity": "relu"}),
    }
    for name, (kind, options) in taggers.items():
        yield Entry("recurrent/" + name, functools.partial(Tagger, kind, **options),
                    functools.partial(data.tokens, 24, WORDS))
    yield Entry("recurrent/line_reader", Reader, functools.partial(data.images, 32))
    for kind in ("GRUCell", "RNNCell"):
        yield Entry(f"recurrent/{kind.lower()}_steps", functools.partial(Cells, kind),
                    functools.partial(data.normal, 1, 8, 32))
