# Report: llvm/torch-mlir#4600, iree-org/iree#24621 (quantized_decomposed.* of PT2E is illegal in iree-compile).
# Right: eager's value, or `legalization` that names quantized_decomposed.dequantize_per_channel.
import torch

try:
    import torch.ao.quantization.fx._decomposed  # registers the operators
except ImportError:
    import torchao.quantization.pt2e._decomposed  # noqa

Q = torch.ops.quantized_decomposed


class Int8Linear(torch.nn.Module):
    def __init__(self):
        super().__init__()
        w = torch.randn(24, 32)
        s = w.abs().amax(1) / 127
        self.register_buffer("w", (w / s[:, None]).round().clamp(-127, 127).to(torch.int8))
        self.register_buffer("s", s)
        self.register_buffer("z", torch.zeros(24, dtype=torch.int64))

    def forward(self, x):
        xq = Q.quantize_per_tensor(x, 0.03, 3, -128, 127, torch.int8)
        xf = Q.dequantize_per_tensor(xq, 0.03, 3, -128, 127, torch.int8)
        wf = Q.dequantize_per_channel(self.w, self.s, self.z, 0, -127, 127, torch.int8)
        return torch.nn.functional.linear(xf, wf)


def get_model():
    return Int8Linear()


def get_dummy_input(batch_size=4):
    return torch.randn(batch_size, 32)
