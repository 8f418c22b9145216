import torch
import torch.nn as nn
import torch.nn.functional as F
import talk


class HalfConv(nn.Conv1d):
    """ordinary centred convolution whose kernel has its right half blanked (PixelCNN, type A or B)"""

    def __init__(self, kind, cin, cout, width, dilation=1):
        super().__init__(cin, cout, width, padding=dilation * (width // 2), dilation=dilation)
        keep = torch.zeros(width)
        keep[:width // 2 + (kind == "B")] = 1.0
        self.register_buffer("keep", keep)
        with torch.no_grad():
            self.weight.mul_((width / keep.sum()) ** 0.5)

    def forward(self, x):
        return F.conv1d(x, self.weight * self.keep, self.bias, self.stride, self.padding, self.dilation)


class Net(nn.Module):
    def __init__(self, v, c=56):
        super().__init__()
        self.table = nn.Parameter(torch.randn(v, c) * 0.3)
        self.stack = nn.ModuleList()
        for d in (1, 2, 4, 8):
            self.stack.append(nn.Sequential(
                HalfConv("B", c, 2 * c, 5, d), nn.GLU(dim=1), nn.Conv1d(c, c, 1)))
        self.last = nn.Conv1d(c, v, 1)

    def forward(self, ids):
        x = self.table[ids].permute(0, 2, 1)
        for f in self.stack:
            x = (x + f(x)) * 0.5 ** 0.5
        return self.last(F.elu(x))


def bits(logits, ids):
    """what place t says about t + 1; the last place has nobody to be asked about"""
    logp = logits.log_softmax(1)
    picked = logp[:, :, :-1].gather(1, ids[:, None, 1:])
    return -picked.mean() / 0.6931471805599453


torch.manual_seed(2)
text = talk.story(200_000, seed=77)
itos = sorted(set(text))
stoi = {c: i for i, c in enumerate(itos)}
stream = torch.tensor([stoi[c] for c in text])
stream = stream[:len(stream) // 96 * 96].view(-1, 96)

model = Net(len(itos))
opt = torch.optim.NAdam(model.parameters(), lr=4e-3)
order = torch.cat([torch.randperm(len(stream)) for _ in range(4)])
steps = len(order) // 16
slow = torch.optim.lr_scheduler.PolynomialLR(opt, steps, 1.0)
for k, rows in enumerate(order[:steps * 16].view(steps, 16)):
    loss = bits(model(stream[rows]), stream[rows])
    opt.zero_grad()
    loss.backward()
    opt.step()
    slow.step()
    if k % 64 == 0 or k == steps - 1:
        print(k, "%.3f bits" % loss.item())
