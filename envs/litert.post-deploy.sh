# Made by `vmfbench lock`. Snakemake runs it in the environment that conda made of litert.yaml.
# envs/litert.lock has sha256 a4de958fb93c0816c13102e0b3d8f360d857e3a992a43078eba9930c8161efed.
python -m pip install --no-deps --require-hashes --force-reinstall -r envs/litert.lock
