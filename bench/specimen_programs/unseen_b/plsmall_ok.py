import warnings

import lightning as L
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

import talk

warnings.filterwarnings("ignore")


class Sentences(Dataset):
    """word windows with their successors"""

    def __init__(self, n, seed, window=24):
        v = {w: i for i, w in enumerate(talk.vocab())}
        self.ids = torch.tensor([v[w] for w in talk.words(n, seed)])
        self.window = window

    def __len__(self):
        return (len(self.ids) - 1) // self.window

    def __getitem__(self, i):
        s = self.ids[i * self.window:(i + 1) * self.window + 1]
        return s[:-1], s[1:]


class ScaledLinear(nn.Module):
    """weights of unit variance, scaled when used (equalised learning rate)"""

    def __init__(self, n_in, n_out, gain=1.0):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n_out, n_in))
        self.bias = nn.Parameter(torch.zeros(n_out))
        self.scale = gain / n_in ** 0.5

    def forward(self, x):
        return F.linear(x, self.weight * self.scale, self.bias)


class CausalConv(nn.Module):
    def __init__(self, d, kernel, dilation):
        super().__init__()
        self.taps, self.dilation = kernel, dilation
        self.norm = nn.LayerNorm(d)
        self.up = ScaledLinear(d * kernel, 2 * d)
        self.down = ScaledLinear(d, d)

    def forward(self, x):
        z = self.norm(x)
        z = torch.cat([F.pad(z, (0, 0, k * self.dilation, 0))[:, :z.shape[1]] for k in range(self.taps)], -1)
        a, b = self.up(z).chunk(2, -1)
        return x + self.down(a * torch.sigmoid(b))


class WordModel(L.LightningModule):
    def __init__(self, d=64, lr=3e-3, accumulate=1, epochs=6):
        super().__init__()
        self.save_hyperparameters()
        self.automatic_optimization = False
        n = len(talk.vocab())
        self.embed = nn.Embedding(n, d)
        self.body = nn.Sequential(*[CausalConv(d, 3, 3 ** k) for k in range(3)], nn.LayerNorm(d))
        self.head = ScaledLinear(d, n)

    def forward(self, x):
        return self.head(self.body(self.embed(x)))

    def on_train_epoch_start(self):
        self.optimizers().zero_grad()

    def training_step(self, batch, batch_idx):
        x, y = batch
        opt = self.optimizers()
        loss = F.cross_entropy(self(x).float().flatten(0, 1), y.flatten())
        self.manual_backward(loss / self.hparams.accumulate)
        if (batch_idx + 1) % self.hparams.accumulate == 0:
            self.clip_gradients(opt, gradient_clip_val=1.0, gradient_clip_algorithm="norm")
            opt.step()
            opt.zero_grad()
            self.lr_schedulers().step()
        if batch_idx % 111 == 0:
            self.print(f"epoch {self.current_epoch} batch {batch_idx} loss {loss.item():.3f}")

    def configure_optimizers(self):
        opt = torch.optim.Adam(self.parameters(), lr=self.hparams.lr)
        steps = self.hparams.epochs * self.trainer.num_training_batches // self.hparams.accumulate
        return [opt], [torch.optim.lr_scheduler.CosineAnnealingLR(opt, max(1, steps))]


def main():
    L.seed_everything(12, verbose=False)
    data = DataLoader(Sentences(3000, seed=21), batch_size=6, shuffle=True)
    model = WordModel()
    trainer = L.Trainer(max_epochs=model.hparams.epochs, accelerator="cpu", logger=False, enable_checkpointing=False,
                        enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(model, data)
    return model


if __name__ == "__main__":
    model = main()
