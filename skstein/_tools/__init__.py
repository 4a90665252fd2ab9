"""Python at work: copies, names, warnings, parallel maps, random numbers, blocks of rows."""
