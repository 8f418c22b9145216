"""PyTorch Lightning."""

import logging
import warnings

import lightning
import torch
from tiny import TinyModel, loss_of, make_data
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
lightning.seed_everything(0, verbose=False)


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = TinyModel(dropout=0.1)

    def training_step(self, batch, index):
        loss = loss_of(self.model, batch[0][:, :-1], batch[0][:, 1:])
        print(loss.item())
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=3e-3)


trainer = lightning.Trainer(
    max_steps=8,
    accelerator="cpu",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
    gradient_clip_val=0.5,
)
trainer.fit(Module(), DataLoader(TensorDataset(make_data()), batch_size=8, shuffle=True))
