"""Which training pairs are dropped, and how many for what reason; numpy over blocks of pairs."""
