"""Several nodes of one run in one view: a session with an agent on each, and one model over all of them."""
