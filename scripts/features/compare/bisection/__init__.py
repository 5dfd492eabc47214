"""Finds the first release of IREE in which a cell behaves in another way."""
