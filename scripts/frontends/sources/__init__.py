"""What a model may be made of.

registry.py has all sources. It, exported_program.py and hugging_face.py declare them (`Source` in source.py) without torch, because the
driver checks every file before any work starts. load_*.py load the files in the environment of a stage.
"""
