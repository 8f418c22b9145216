"""Padding helpers shared by a few scripts."""
import torch


def pad_rows(rows, value=0):
    out = torch.full((len(rows), max(len(r) for r in rows)), value, dtype=torch.long)
    for i, r in enumerate(rows):
        out[i, : len(r)] = torch.as_tensor(r)
    return out


def padding_mask(lengths, width):
    """(rows, width), True where there is padding, as torch.nn.MultiheadAttention wants its key_padding_mask"""
    return torch.arange(width)[None, :] >= torch.as_tensor(lengths)[:, None]
