"""What a model is: config, weights, the folder, its card."""
