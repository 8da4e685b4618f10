"""Engines that run the network; translate.py opens the one in the settings."""
