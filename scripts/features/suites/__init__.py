"""Models by name: timm, Hugging Face, torchvision, TorchBench."""
