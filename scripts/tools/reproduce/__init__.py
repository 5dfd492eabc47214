"""Reproducers: a folder that shows what one IREE cell does, and needs only IREE's wheels."""
