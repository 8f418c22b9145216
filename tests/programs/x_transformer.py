"""A decoder of x-transformers, with its own wrapper for next tokens."""

import torch
from tiny import CONTEXT, VOCABULARY, make_data
from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

torch.manual_seed(0)
layers = Decoder(dim=24, depth=2, heads=2, attn_dim_head=12, rotary_pos_emb=True)
model = AutoregressiveWrapper(
    TransformerWrapper(num_tokens=VOCABULARY, max_seq_len=CONTEXT, attn_layers=layers)
)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
data = make_data()
for k in range(6):
    loss = model(data[8 * k : 8 * k + 8])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
