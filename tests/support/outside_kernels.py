"""Functions that compute outside torch, in C behind ctypes and in numpy, healthy and with faults.

`fault` is one of FAULTS or empty: `tail` leaves the last columns out of the backward, `row` one
row, `queries` a block of the queries of an attention, `small` turns its sign for few numbers, and
`leak` lets the forward read the next position.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

FAULTS = ("tail", "row", "small", "queries", "leak")
SMALL = 64
SOURCE = r"""
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* y = tanh(x), and with a leak a tenth of the next row's on top. */
void tanh_forward(const float *x, float *y, long rows, long cols, long length, int leak) {
  for (long r = 0; r < rows; r++)
    for (long c = 0; c < cols; c++) {
      y[r * cols + c] = tanhf(x[r * cols + c]);
      if (leak && (r + 1) % length) y[r * cols + c] += 0.1f * tanhf(x[(r + 1) * cols + c]);
    }
}

/* tail: a loop over blocks of 5 that forgets what is left; row: row 3 is skipped. */
void tanh_backward(const float *x, const float *g, float *dx, long rows, long cols, long length,
                   int leak, int tail, int row, int small) {
  long end = tail ? cols - cols % 5 : cols;
  float sign = small && rows * cols < 64 ? -1.0f : 1.0f;
  memset(dx, 0, rows * cols * sizeof(float));
  for (long r = 0; r < rows; r++) {
    if (row && r == 3) continue;
    for (long c = 0; c < end; c++) {
      float t = tanhf(x[r * cols + c]), up = g[r * cols + c];
      if (leak && r % length) up += 0.1f * g[(r - 1) * cols + c];
      dx[r * cols + c] = sign * up * (1 - t * t);
    }
  }
}

static void weights(const float *q, const float *k, float *w, long t, long d) {
  float top = -1e30f, sum = 0, scale = 1 / sqrtf((float)d);
  for (long s = 0; s <= t; s++) {
    w[s] = 0;
    for (long i = 0; i < d; i++) w[s] += q[t * d + i] * k[s * d + i] * scale;
    if (w[s] > top) top = w[s];
  }
  for (long s = 0; s <= t; s++) sum += w[s] = expf(w[s] - top);
  for (long s = 0; s <= t; s++) w[s] /= sum;
}

void attention_forward(const float *q, const float *k, const float *v, float *y, long rows,
                       long length, long d) {
  float *w = malloc(length * sizeof(float));
  for (long b = 0; b < rows; b++) {
    long at = b * length * d;
    for (long t = 0; t < length; t++) {
      weights(q + at, k + at, w, t, d);
      for (long i = 0; i < d; i++) {
        float sum = 0;
        for (long s = 0; s <= t; s++) sum += w[s] * v[at + s * d + i];
        y[at + t * d + i] = sum;
      }
    }
  }
  free(w);
}

/* queries: the last block of 4 queries is left out. */
void attention_backward(const float *q, const float *k, const float *v, const float *g, float *dq,
                        float *dk, float *dv, long rows, long length, long d, int queries) {
  float *w = malloc(length * sizeof(float)), *dw = malloc(length * sizeof(float));
  float scale = 1 / sqrtf((float)d);
  for (long b = 0; b < rows; b++) {
    long at = b * length * d;
    for (long t = 0; t < (queries ? length - 4 : length); t++) {
      float dot = 0;
      weights(q + at, k + at, w, t, d);
      for (long s = 0; s <= t; s++) {
        dw[s] = 0;
        for (long i = 0; i < d; i++) {
          dw[s] += g[at + t * d + i] * v[at + s * d + i];
          dv[at + s * d + i] += w[s] * g[at + t * d + i];
        }
        dot += w[s] * dw[s];
      }
      for (long s = 0; s <= t; s++)
        for (long i = 0; i < d; i++) {
          float up = w[s] * (dw[s] - dot) * scale;
          dq[at + t * d + i] += up * k[at + s * d + i];
          dk[at + s * d + i] += up * q[at + t * d + i];
        }
    }
  }
  free(w);
  free(dw);
}
"""


def compiled(folder: Path) -> str:
    """The C code as a shared library; the test is skipped where nothing compiles it."""
    return library_of(SOURCE, folder / "kernels.c")


def library_of(code: str, source: Path) -> str:
    """C code as a shared library beside its source; the test is skipped without a compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    library = source.with_name(f"lib{source.stem}.so")
    source.write_text(code)
    command = [compiler, "-O1", "-shared", "-fPIC", str(source), "-o", str(library), "-lm"]
    subprocess.run(command, check=True)
    return str(library)


def _pointer(tensor: Tensor) -> ctypes.c_void_p:
    return ctypes.c_void_p(tensor.data_ptr())


def _long(number: int) -> ctypes.c_long:
    return ctypes.c_long(number)


def in_c(path: str, fault: str = "") -> tuple[Any, Any]:
    """A tanh of (rows, positions, columns) and a causal attention, both behind ctypes."""
    library = ctypes.CDLL(path)
    leak, tail, row, small = (int(fault == f) for f in ("leak", "tail", "row", "small"))

    class TanhInC(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            x = x.contiguous()
            out = torch.empty_like(x)
            rows, cols = x.numel() // x.shape[-1], x.shape[-1]
            ctx.sizes = _long(rows), _long(cols), _long(x.shape[-2]), leak
            library.tanh_forward(_pointer(x), _pointer(out), *ctx.sizes)
            ctx.save_for_backward(x)
            return out

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            (x,) = ctx.saved_tensors
            gradient, found = gradient.contiguous(), torch.empty_like(x)
            pointers = map(_pointer, (x, gradient, found))
            library.tanh_backward(*pointers, *ctx.sizes, tail, row, small)
            return found

    class AttentionInC(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            q, k, v = (t.contiguous() for t in (q, k, v))
            out = torch.empty_like(q)
            ctx.sizes = [_long(n) for n in q.shape]
            library.attention_forward(*map(_pointer, (q, k, v, out)), *ctx.sizes)
            ctx.save_for_backward(q, k, v)
            return out

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, ...]:
            given = [*ctx.saved_tensors, gradient.contiguous()]
            found = [torch.zeros_like(t) for t in ctx.saved_tensors]
            pointers = map(_pointer, (*given, *found))
            library.attention_backward(*pointers, *ctx.sizes, int(fault == "queries"))
            return tuple(found)

    return TanhInC.apply, AttentionInC.apply


def in_numpy(fault: str = "") -> tuple[Any, Any]:
    """The same in numpy."""

    class TanhInNumpy(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            made = np.tanh(x.detach().numpy())
            if fault == "leak":
                made[:, :-1] += 0.1 * np.tanh(x.detach().numpy())[:, 1:]
            return torch.from_numpy(made)

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            x, up = ctx.saved_tensors[0].numpy(), gradient.numpy().copy()
            if fault == "leak":
                up[:, 1:] += 0.1 * gradient.numpy()[:, :-1]
            found = up * (1 - np.tanh(x) ** 2)
            if fault == "tail":
                found[..., x.shape[-1] - x.shape[-1] % 5 :] = 0
            if fault == "row":
                found.reshape(-1, x.shape[-1])[3] = 0
            return torch.from_numpy(-found if fault == "small" and x.size < SMALL else found)

    class AttentionInNumpy(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            ctx.save_for_backward(q, k, v)
            weights, values = _weights(q, k), v.detach().numpy()
            return torch.from_numpy(weights @ values)

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, ...]:
            q, k, v = ctx.saved_tensors
            weights, up = _weights(q, k), gradient.numpy().copy()
            if fault == "queries":
                up[:, -4:] = 0
            of_weights = up @ v.numpy().transpose(0, 2, 1)
            dot = (of_weights * weights).sum(-1, keepdims=True)
            of_scores = weights * (of_weights - dot) * q.shape[-1] ** -0.5
            found = (
                of_scores @ k.numpy(),
                of_scores.transpose(0, 2, 1) @ q.numpy(),
                weights.transpose(0, 2, 1) @ up,
            )
            return tuple(torch.from_numpy(f.astype(np.float32)) for f in found)

    return TanhInNumpy.apply, AttentionInNumpy.apply


def _weights(q: Tensor, k: Tensor) -> Any:
    queries, keys = q.detach().numpy(), k.detach().numpy()
    scores = queries @ keys.transpose(0, 2, 1) * np.float32(q.shape[-1] ** -0.5)
    scores[:, ~np.tri(scores.shape[1], dtype=bool)] = -np.inf
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)
