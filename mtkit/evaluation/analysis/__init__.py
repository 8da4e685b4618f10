"""Where systems differ: by kind of sentence, by risk flag, sentence by sentence."""
