"""What a model is: a config, weights, a folder that holds both."""
