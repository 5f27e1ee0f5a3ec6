"""GLUE and your own tables -> examples -> scores and prediction files."""
