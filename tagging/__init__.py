"""CoNLL columns -> tags -> entity scores."""
