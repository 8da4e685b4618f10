"""A model: its config, its weights, and the folder that holds both."""
