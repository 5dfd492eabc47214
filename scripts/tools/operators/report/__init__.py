"""Turn the files of the operators' stages into rows, scores and the page results/operators.md."""
