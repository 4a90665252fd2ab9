"""What all estimators share, and the way to them through pipelines and searches."""
