"""Files of programs' strings: their messages and keys, and translated ones as pairs."""
