# Made by `vmfbench lock`. Snakemake runs it in the environment that conda made of litert.yaml.
# envs/litert.lock has sha256 82f916d7b9fc91d24f956200b2e04483dfd90458aec0e95c1f1195e5e1ed1ae7.
python -m pip install --no-deps --require-hashes --force-reinstall -r envs/litert.lock
