"""What the stages share. No module here imports torch or IREE at its top."""
