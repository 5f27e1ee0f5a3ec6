"""Records -> batches, the loop, evaluation, run folders, devices, flags."""
