"""What stages hand to each other: tensors on disk, parameter archives."""
