"""Finds which words of a pair are translations of each other, from statistics of many pairs."""
