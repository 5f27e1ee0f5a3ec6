"""Question answering (SQuAD): data, windows, answer spans, answers, scores."""
