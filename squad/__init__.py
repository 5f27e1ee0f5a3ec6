"""Questions -> windows -> spans -> answers and scores."""
