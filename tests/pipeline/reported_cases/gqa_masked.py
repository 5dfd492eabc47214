# Report: llvm/torch-mlir#3831 (mask batch dimension mismatch), #4379 (SDPA with i1 mask), iree-org/iree#24313 (GQA).
# Right: eager's value (a fully masked row is 0 in PyTorch >= 2.5), or an error that names scaled_dot_product_attention.
import torch
import torch.nn.functional as F


class Attend(torch.nn.Module):
    def forward(self, q, k, v, keep):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=keep, enable_gqa=True)


def get_model():
    return Attend()


def get_dummy_input(batch_size=2):
    keep = torch.rand(batch_size, 1, 12, 20) > 0.3
    keep[0, 0, 3] = False  # a row without any key
    return (
        torch.randn(batch_size, 8, 12, 16),
        torch.randn(batch_size, 2, 20, 16),
        torch.randn(batch_size, 2, 20, 16),
        keep,
    )
