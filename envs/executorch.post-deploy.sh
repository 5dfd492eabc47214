# Made by `vmfbench lock`. Snakemake runs it in the environment that conda made of executorch.yaml.
# envs/executorch.lock has sha256 25453ea5a7a7de37083bd6de2a928611de8491a733cb8a88ba9e1f0fe7294790.
python -m pip install --no-deps --require-hashes --force-reinstall -r envs/executorch.lock
