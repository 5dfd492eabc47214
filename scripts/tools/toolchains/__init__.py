"""Other versions, wheels or local builds of IREE and torch-mlir beside the pinned ones."""
