"""What a model may be made of: one module per source, which the name of the model's file decides.

A module here has a `SOURCE` (scripts/sources/source.py), and works without torch, because the driver checks every file before
any work starts. The module of the same name in `loaders` loads the file in the environment of a stage.
"""
