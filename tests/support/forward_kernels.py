"""A linear layer, a softmax and an attention outside torch, in C and numpy, with faulty forwards.

`fault` is one of FAULTS or empty: `tail` leaves the last columns out of the result, `inner` out of
the sums that make it, `row` leaves out one row, `queries` a block of the last positions, and
`small` turns the sign of a result of few numbers. The backward is that of the function that was
meant; with `consistent` it is the derivative of the faulty forward instead.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from outside_kernels import SMALL, library_of
from torch import Tensor

FAULTS = ("tail", "inner", "row", "queries", "small")
SOURCE = r"""
#include <math.h>
#include <stdlib.h>

enum { RIGHT, TAIL, INNER, ROW, QUERIES, SMALL };
typedef struct { long rows, length, cols; int fault; } shape;

/* A loop over blocks of 5 that forgets what is left. */
static long end(long cols, int forgets) { return forgets ? cols - cols % 5 : cols; }

/* What becomes of an entry of the result: nothing, itself, or the other sign. */
static float kept(shape s, long row, long col) {
  if (s.fault == TAIL && col >= end(s.cols, 1)) return 0;
  if (s.fault == ROW && row == 3) return 0;
  if (s.fault == QUERIES && row % s.length >= s.length - 4) return 0;
  return s.fault == SMALL && s.rows * s.cols < 64 ? -1 : 1;
}

void linear_forward(const float *x, const float *w, float *y, shape s, long in) {
  for (long r = 0; r < s.rows; r++)
    for (long c = 0; c < s.cols; c++) {
      float sum = 0;
      for (long i = 0; i < end(in, s.fault == INNER); i++) sum += x[r * in + i] * w[c * in + i];
      y[r * s.cols + c] = kept(s, r, c) * sum;
    }
}

void linear_backward(const float *x, const float *w, const float *g, float *dx, float *dw, shape s,
                     long in) {
  for (long r = 0; r < s.rows; r++)
    for (long c = 0; c < s.cols; c++) {
      float up = kept(s, r, c) * g[r * s.cols + c];
      for (long i = 0; i < end(in, s.fault == INNER); i++) {
        dx[r * in + i] += up * w[c * in + i];
        dw[c * in + i] += up * x[r * in + i];
      }
    }
}

/* Of the first n numbers, divided by the sum of the first m. */
static void shares(const float *x, float *y, long n, long m) {
  float top = x[0], sum = 0;
  for (long i = 1; i < n; i++) if (x[i] > top) top = x[i];
  for (long i = 0; i < n; i++) y[i] = expf(x[i] - top);
  for (long i = 0; i < m; i++) sum += y[i];
  for (long i = 0; i < n; i++) y[i] /= sum;
}

void softmax_forward(const float *x, float *y, shape s) {
  for (long r = 0; r < s.rows; r++) {
    shares(x + r * s.cols, y + r * s.cols, s.cols, end(s.cols, s.fault == INNER));
    for (long c = 0; c < s.cols; c++) y[r * s.cols + c] *= kept(s, r, c);
  }
}

void softmax_backward(const float *x, const float *g, float *dx, shape s) {
  long n = s.cols, m = end(n, s.fault == INNER);
  float *y = malloc(n * sizeof(float));
  for (long r = 0; r < s.rows; r++) {
    float dot = 0;
    shares(x + r * n, y, n, m);
    for (long c = 0; c < n; c++) dot += kept(s, r, c) * g[r * n + c] * y[c];
    for (long c = 0; c < n; c++)
      dx[r * n + c] = y[c] * (kept(s, r, c) * g[r * n + c] - (c < m ? dot : 0));
  }
  free(y);
}

/* One row of weights of a causal attention; rows of a batch entry begin at `first`. */
static void weights(const float *q, const float *k, float *w, long t, shape s) {
  for (long j = 0; j <= t; j++) {
    w[j] = 0;
    for (long i = 0; i < end(s.cols, s.fault == INNER); i++)
      w[j] += q[t * s.cols + i] * k[j * s.cols + i] / sqrtf((float)s.cols);
  }
  shares(w, w, t + 1, t + 1);
}

void attention_forward(const float *q, const float *k, const float *v, float *y, shape s) {
  float *w = malloc(s.length * sizeof(float));
  for (long r = 0; r < s.rows; r++) {
    long t = r % s.length, first = (r - t) * s.cols;
    weights(q + first, k + first, w, t, s);
    for (long i = 0; i < s.cols; i++) {
      float sum = 0;
      for (long j = 0; j <= t; j++) sum += w[j] * v[first + j * s.cols + i];
      y[r * s.cols + i] = kept(s, r, i) * sum;
    }
  }
  free(w);
}

void attention_backward(const float *q, const float *k, const float *v, const float *g, float *dq,
                        float *dk, float *dv, shape s) {
  long d = s.cols;
  float *w = malloc(s.length * sizeof(float)), *dw = calloc(s.length, sizeof(float));
  for (long r = 0; r < s.rows; r++) {
    long t = r % s.length, first = (r - t) * d;
    float dot = 0;
    weights(q + first, k + first, w, t, s);
    for (long j = 0; j <= t; j++) {
      dw[j] = 0;
      for (long i = 0; i < d; i++) {
        float up = kept(s, r, i) * g[r * d + i];
        dw[j] += up * v[first + j * d + i];
        dv[first + j * d + i] += up * w[j];
      }
      dot += w[j] * dw[j];
    }
    for (long j = 0; j <= t; j++)
      for (long i = 0; i < end(d, s.fault == INNER); i++) {
        float up = w[j] * (dw[j] - dot) / sqrtf((float)d);
        dq[r * d + i] += up * k[first + j * d + i];
        dk[first + j * d + i] += up * q[r * d + i];
      }
  }
  free(w);
  free(dw);
}
"""


class Kernels(NamedTuple):
    """Functions of tensors of (rows, positions, columns)."""

    linear: Any
    softmax: Any
    attention: Any


class Shape(ctypes.Structure):
    """Of a result, and what is wrong in the kernel that makes it."""

    _fields_ = (
        ("rows", ctypes.c_long),
        ("length", ctypes.c_long),
        ("cols", ctypes.c_long),
        ("fault", ctypes.c_int),
    )


def compiled(folder: Path) -> str:
    """The C code as a shared library; the test is skipped where nothing compiles it."""
    return library_of(SOURCE, folder / "forward_kernels.c")


def in_c(path: str, fault: str = "", *, consistent: bool = False) -> Kernels:
    """The kernels behind ctypes."""
    library = ctypes.CDLL(path)
    number = ("", *FAULTS).index(fault)

    def ran(name: str, of: list[Tensor], to: list[Tensor], result: Tensor, *more: int) -> None:
        wrong = number if name.endswith("forward") or consistent else 0
        cols = result.shape[-1]
        shape = Shape(result.numel() // cols, result.shape[-2], cols, wrong)
        pointers = [ctypes.c_void_p(t.data_ptr()) for t in (*of, *to)]
        getattr(library, name)(*pointers, shape, *map(ctypes.c_long, more))

    class LinearInC(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, w: Tensor) -> Tensor:
            given = [x.contiguous(), w.contiguous()]
            out = x.new_empty(*x.shape[:-1], len(w))
            ran("linear_forward", given, [out], out, x.shape[-1])
            ctx.save_for_backward(*given)
            return out

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, ...]:
            saved = list(ctx.saved_tensors)
            up, found = gradient.contiguous(), [torch.zeros_like(t) for t in saved]
            ran("linear_backward", [*saved, up], found, up, saved[0].shape[-1])
            return tuple(found)

    class SoftmaxInC(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            x = x.contiguous()
            out = torch.empty_like(x)
            ran("softmax_forward", [x], [out], out)
            ctx.save_for_backward(x)
            return out

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            (x,) = ctx.saved_tensors
            up, found = gradient.contiguous(), torch.zeros_like(x)
            ran("softmax_backward", [x, up], [found], up)
            return found

    class AttentionInC(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            given = [t.contiguous() for t in (q, k, v)]
            out = torch.empty_like(given[0])
            ran("attention_forward", given, [out], out)
            ctx.save_for_backward(*given)
            return out

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, ...]:
            saved, up = list(ctx.saved_tensors), gradient.contiguous()
            found = [torch.zeros_like(t) for t in saved]
            ran("attention_backward", [*saved, up], found, up)
            return tuple(found)

    return Kernels(LinearInC.apply, SoftmaxInC.apply, AttentionInC.apply)


def in_numpy(fault: str = "", *, consistent: bool = False) -> Kernels:
    """The same in numpy."""
    behind = fault if consistent else ""

    class LinearInNumpy(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, w: Tensor) -> Tensor:
            ctx.save_for_backward(x, w)
            given, weight = _array(x), _array(w)
            end = _end(given.shape[-1], fault == "inner")
            made = given[..., :end] @ weight[:, :end].T
            return torch.from_numpy(made * _kept(fault, made.shape))

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, ...]:
            x, w = map(_array, ctx.saved_tensors)
            up = _array(gradient) * _kept(behind, tuple(gradient.shape))
            to_x = up @ w
            to_w = up.reshape(-1, len(w)).T @ x.reshape(-1, x.shape[-1])
            end = _end(x.shape[-1], behind == "inner")
            to_x[..., end:] = to_w[:, end:] = 0
            return torch.from_numpy(to_x), torch.from_numpy(to_w)

    class SoftmaxInNumpy(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            made = _shares(_array(x), _end(x.shape[-1], fault == "inner"))
            return torch.from_numpy(made * _kept(fault, made.shape))

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            (x,) = map(_array, ctx.saved_tensors)
            end = _end(x.shape[-1], behind == "inner")
            up, made = _array(gradient) * _kept(behind, x.shape), _shares(x, end)
            dot = (up * made).sum(-1, keepdims=True) * (np.arange(x.shape[-1]) < end)
            return torch.from_numpy((made * (up - dot)).astype(np.float32))

    class AttentionInNumpy(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            ctx.save_for_backward(q, k, v)
            queries, keys, values = map(_array, (q, k, v))
            made = _weights(queries, keys, fault) @ values
            return torch.from_numpy(made * _kept(fault, made.shape))

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, ...]:
            q, k, v = map(_array, ctx.saved_tensors)
            weights = _weights(q, k, behind)
            up = _array(gradient) * _kept(behind, q.shape)
            of_weights = up @ v.transpose(0, 2, 1)
            dot = (of_weights * weights).sum(-1, keepdims=True)
            of_scores = weights * (of_weights - dot) * q.shape[-1] ** -0.5
            to_q, to_k = of_scores @ k, of_scores.transpose(0, 2, 1) @ q
            end = _end(q.shape[-1], behind == "inner")
            to_q[..., end:] = to_k[..., end:] = 0
            found = to_q, to_k, weights.transpose(0, 2, 1) @ up
            return tuple(torch.from_numpy(f.astype(np.float32)) for f in found)

    return Kernels(LinearInNumpy.apply, SoftmaxInNumpy.apply, AttentionInNumpy.apply)


def _array(tensor: Tensor) -> Any:
    return tensor.detach().numpy()


def _end(cols: int, forgets: bool) -> int:
    return cols - cols % 5 if forgets else cols


def _kept(fault: str, shape: tuple[int, ...]) -> Any:
    """What becomes of each entry of a result: nothing, itself, or the other sign."""
    found = np.ones(shape, np.float32)
    if fault == "tail":
        found[..., _end(shape[-1], True) :] = 0
    if fault == "row":
        found.reshape(-1, shape[-1])[3] = 0
    if fault == "queries":
        found[..., -4:, :] = 0
    return -found if fault == "small" and found.size < SMALL else found


def _shares(x: Any, end: int) -> Any:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers[..., :end].sum(-1, keepdims=True)


def _weights(q: Any, k: Any, fault: str) -> Any:
    end = _end(q.shape[-1], fault == "inner")
    scores = q[..., :end] @ k[..., :end].transpose(0, 2, 1) * np.float32(q.shape[-1] ** -0.5)
    scores[:, ~np.tri(scores.shape[1], dtype=bool)] = -np.inf
    return _shares(scores, scores.shape[-1])
