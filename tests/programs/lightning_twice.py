"""PyTorch Lightning, twice in one script: another model, another trainer."""

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
    def __init__(self, layers):
        super().__init__()
        self.model = TinyModel(layers)

    def training_step(self, batch, index):
        return loss_of(self.model, batch[0][:, :-1], batch[0][:, 1:])

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


for layers in (2, 1):
    trainer = lightning.Trainer(
        max_steps=60,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    data = DataLoader(TensorDataset(make_data()), batch_size=8, shuffle=True)
    trainer.fit(Module(layers), data)
