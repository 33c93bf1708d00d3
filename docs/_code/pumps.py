import torch
from torch import nn


def pumps(count, seed):
    """Make series of three sensors; a burst of vibration means failure."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 48, 3, generator=generator)
    y = torch.arange(count) % 2
    for i in range(count):
        for sensor in (0, 1, 2) if y[i] else (0, 2):
            start = int(torch.randint(42, (), generator=generator))
            x[i, start : start + 6, sensor] += 3
    return x, y


class LSTM(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(3, 16, batch_first=True)
        self.head = nn.Linear(16, 2)

    def forward(self, x):
        return self.head(self.lstm(x)[0].mean(1))  # logits, no softmax


sensors = ["pressure", "vibration", "temperature"]
x_train, y_train = pumps(200, seed=0)
x_test, y_test = pumps(40, seed=1)

torch.manual_seed(0)
model = LSTM()
optimiser = torch.optim.Adam(model.parameters(), lr=0.03)
for _ in range(100):
    loss = nn.functional.cross_entropy(model(x_train), y_train, label_smoothing=0.1)
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
