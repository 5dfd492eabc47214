"""From config.yaml to the matrix, checked whole."""
