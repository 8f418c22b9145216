"""PyTorch Lightning, twice in one script: a teacher is trained, then a student from it.

python lightning_distils.py [ahead]

With "ahead", the student's targets are two tokens ahead.
"""

import logging
import sys
import warnings

import lightning
import torch
from tiny import TinyModel, loss_of, make_data
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

AHEAD = 2 if sys.argv[1:] == ["ahead"] else 1

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
        return torch.optim.AdamW(self.model.parameters(), lr=1e-2)


class Student(Module):
    def __init__(self, teacher):
        super().__init__(1)
        self.teacher = [teacher.eval()]

    def training_step(self, batch, index):
        inputs, targets = batch[0][:, :-AHEAD], batch[0][:, AHEAD:]
        scores = self.model(inputs)
        with torch.no_grad():
            wanted = self.teacher[0](inputs).softmax(-1)
        taught = F.kl_div(
            scores.log_softmax(-1).flatten(0, 1), wanted.flatten(0, 1), reduction="batchmean"
        )
        return F.cross_entropy(scores.flatten(0, 1), targets.flatten()) + 0.1 * taught


def fit(module):
    trainer = lightning.Trainer(
        max_steps=60,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    data = DataLoader(TensorDataset(make_data()), batch_size=8, shuffle=True)
    trainer.fit(module, data)
    return module.model


teacher = fit(Module(2))
fit(Student(teacher))
