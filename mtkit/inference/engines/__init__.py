"""Engines that run the network; open_translator.py opens the one in the settings."""
