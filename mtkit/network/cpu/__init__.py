"""What makes a processor fast, behind few doors; beside each a plain path."""
