"""What surrounds a run of any engine: coordinates before it, checks after it, streams."""
